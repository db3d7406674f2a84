package job

import "fmt"

// A feature level is what all masters of a cluster can read and write. During an
// upgrade masters of two builds apply one journal; until the level has been raised,
// which is done when every one of them supports the higher one, the newer build
// writes nothing that the older one does not know.
//
// What a level adds to the types of this package stands in a file of its own. The
// one that is here, level2.go, is in no release: it makes a build that is one level
// ahead, to test upgrades with.

// LevelDefaults returns the defaults of the settings that the levels above one level
// and up to another bring, sorted by name: what RaiseLevel journals, and Form with
// above 0.
func LevelDefaults(above, upTo int32) []SettingValue {
	var values []SettingValue
	for _, d := range settingDefs {
		if d.Level > above && d.Level <= upTo {
			values = append(values, SettingValue{Name: d.Name, Value: d.Default})
		}
	}
	return values
}

// checkLevel refuses a command that the level in force does not know. Whoever
// proposes asks before; a command that is in the journal all the same stops the
// masters of older builds, and must do nothing on the others.
func checkLevel(v View, c Command) *Refusal {
	need, level := LevelOf(c), max(v.Cluster().Level, 1)
	if need <= level {
		return nil
	}
	return aboveLevel(c.Name(), need, level)
}

func aboveLevel(what string, need, level int32) *Refusal {
	return refuse(CodeUnsupportedLevel,
		fmt.Sprintf("%s comes with feature level %d, and the cluster's is %d", what, need, level),
		"raise the level once every master runs a build that supports it")
}

func unknownCommand(c Command) *Refusal {
	return refuse(CodeInvalid, fmt.Sprintf("%s is no command of this contract", c.Name()), "")
}
