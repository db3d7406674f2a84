package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// SettingDefs returns every setting this build knows, sorted by name.
func SettingDefs() []SettingDef { return slices.Clone(settingDefs) }

// DefaultSettings returns the default of every setting that this build knows, sorted
// by name. What a command journals are those of some levels, see LevelDefaults.
func DefaultSettings() []SettingValue {
	values := make([]SettingValue, len(settingDefs))
	for i, d := range settingDefs {
		values[i] = SettingValue{Name: d.Name, Value: d.Default}
	}
	return values
}

// CheckSetting returns the canonical spelling of a setting's value.
func CheckSetting(name, value string) (string, *Refusal) {
	d, ok := findSetting(name)
	if !ok {
		return "", refuse(CodeInvalid, fmt.Sprintf("there is no setting %q", printable(name)), "see their names with: lancemaster settings list")
	}
	return d.check(value)
}

// NewSettings parses settings over the defaults.
func NewSettings(values []SettingValue) (Settings, *Refusal) {
	var s Settings
	for _, d := range settingDefs {
		d.assign(&s, d.Default)
	}
	for _, v := range values {
		if refusal := setSetting(&s, v.Name, v.Value); refusal != nil {
			return s, refusal
		}
	}
	return s, nil
}

// Values returns every setting in canonical spelling, sorted by name.
func (s Settings) Values() []SettingValue {
	values := make([]SettingValue, len(settingDefs))
	for i, d := range settingDefs {
		values[i] = SettingValue{Name: d.Name, Value: d.get(s)}
	}
	return values
}

func setSetting(s *Settings, name, value string) *Refusal {
	canonical, refusal := CheckSetting(name, value)
	if refusal != nil {
		return refusal
	}
	d, _ := findSetting(name)
	d.assign(s, canonical)
	return nil
}

func findSetting(name string) (SettingDef, bool) {
	i, ok := slices.BinarySearchFunc(settingDefs, name, func(d SettingDef, name string) int {
		return strings.Compare(d.Name, name)
	})
	if !ok {
		return SettingDef{}, false
	}
	return settingDefs[i], true
}

// checkTogether holds the rules between settings.
func checkTogether(s Settings) *Refusal {
	if s.ExecuteDeadline > s.MaxExecuteDeadline {
		return refuse(CodeInvalid, fmt.Sprintf("dispatch.execute_deadline, %s, is above dispatch.max_execute_deadline, %s",
			FormatDuration(s.ExecuteDeadline), FormatDuration(s.MaxExecuteDeadline)),
			"lower the one or raise the other, in one change")
	}
	return nil
}

// changeSettings changes settings together: all of them or none.
func changeSettings(v View, c ChangeSettings) (Change, *Refusal) {
	if len(c.Values) == 0 {
		return Change{}, invalid("no setting was named")
	}
	level := v.Cluster().Level
	before := v.Settings()
	after := before
	var change Change
	for i, s := range c.Values {
		if i > 0 && c.Values[i-1].Name >= s.Name {
			return Change{}, invalid("settings are given sorted by name, each once")
		}
		value, refusal := CheckSetting(s.Name, s.Value)
		if refusal != nil {
			return Change{}, refusal
		}
		d, _ := findSetting(s.Name)
		if d.Level > level {
			return Change{}, aboveLevel("setting "+d.Name, d.Level, level)
		}
		old := d.get(before)
		if old == value {
			continue
		}
		d.assign(&after, value)
		change.Settings = append(change.Settings, SettingChange{
			Name: s.Name, Old: old, New: value, At: c.At, Actor: c.Actor, Reset: c.Reset,
		})
	}
	if refusal := checkTogether(after); refusal != nil {
		return Change{}, refusal
	}
	if refusal := checkQuarantined(v, before, after); refusal != nil {
		return Change{}, refusal
	}
	change.Answer.Existing = len(change.Settings) == 0
	return change, nil
}

// checkQuarantined keeps a restored or recovered cluster from being put back to
// work by a setting: reopening it asks the operator for more than that.
func checkQuarantined(v View, before, after Settings) *Refusal {
	opens := !before.AdmissionEnabled && after.AdmissionEnabled
	resumes := before.DispatchPaused && !after.DispatchPaused
	if !v.Cluster().Quarantined || !opens && !resumes {
		return nil
	}
	return refuse(CodeQuarantined,
		"admission stays closed and dispatch paused: the cluster was restored or recovered and has not been reopened",
		"make sure that every master of the older incarnation is stopped and that every backend was restarted"+
			" after that, then reopen the cluster")
}

// printable is a name from outside, for a message: quoted there, and not long.
func printable(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strings.Trim(strconv.QuoteToASCII(s), `"`)
}
