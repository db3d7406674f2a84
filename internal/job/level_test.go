package job

import (
	"slices"
	"testing"
)

// TestLevelBringsSettings: a level's settings come with the command that raises it
// and are refused before. This build has none beyond level 1, so the test adds one.
func TestLevelBringsSettings(t *testing.T) {
	before := settingDefs
	t.Cleanup(func() { settingDefs = before })
	var newer bool
	added := flag("zz.newer", "a setting of level 3", func(*Settings) *bool { return &newer })
	added.Level = 3
	settingDefs = append(slices.Clone(before), added)

	h := Header{At: 1, Actor: "ann"}
	founders := []Member{{NodeID: "a", InstanceID: "i", Address: "a:1"}}
	levelOne := slices.DeleteFunc(DefaultSettings(), func(v SettingValue) bool { return v.Name == added.Name })
	v := liveView{NewLive()}
	apply := func(c Command, want Code) {
		t.Helper()
		change, refusal := Apply(v, Position{}, c)
		switch {
		case refusal == nil && want == 0:
			v.Apply(change)
		case refusal == nil || refusal.Code != want:
			t.Fatalf("%s: %v, want %s", c.Name(), refusal, want)
		}
	}
	values := []SettingValue{{Name: added.Name, Value: "true"}}
	for _, d := range []struct {
		above, upTo int32
		want        []SettingValue
	}{
		{0, 1, levelOne}, {0, 2, levelOne}, {0, 3, DefaultSettings()}, {1, 2, nil}, {3, 4, nil},
		{1, 3, []SettingValue{{Name: added.Name, Value: "false"}}}, {2, 3, []SettingValue{{Name: added.Name, Value: "false"}}},
	} {
		if got := LevelDefaults(d.above, d.upTo); !slices.Equal(got, d.want) {
			t.Errorf("the levels above %d up to %d bring %v, not %v", d.above, d.upTo, got, d.want)
		}
	}
	apply(Form{Header: h, ClusterID: 1, Level: 1, Settings: DefaultSettings(), Members: founders}, CodeInvalid)
	apply(Form{Header: h, ClusterID: 1, Level: 1, Settings: levelOne, Members: founders}, 0)
	apply(ChangeSettings{Header: h, Values: values}, CodeUnsupportedLevel)
	apply(RaiseLevel{Header: h, Level: 2, Defaults: values}, CodeInvalid)
	apply(RaiseLevel{Header: h, Level: 2}, 0)
	apply(ChangeSettings{Header: h, Values: values}, CodeUnsupportedLevel)
	apply(RaiseLevel{Header: h, Level: 3}, CodeInvalid)
	apply(RaiseLevel{Header: h, Level: 3, Defaults: []SettingValue{{Name: added.Name, Value: "perhaps"}}}, CodeInvalid)
	apply(RaiseLevel{Header: h, Level: 3, Defaults: values}, 0)
	if !newer || v.Cluster().Level != 3 {
		t.Errorf("level %d, setting %v", v.Cluster().Level, newer)
	}
	apply(RaiseLevel{Header: h, Level: 2}, CodeUnsupportedLevel)
}

// liveView is a View with no history, as far as these tests need one.
type liveView struct{ *Live }

func (liveView) Request(string, string) (ID, bool) { return 0, false }
func (liveView) Closed(Millis, int) []ID           { return nil }

// TestEvidenceBounded: there are not more kinds of proofs than are kept, so this
// record cannot come about; the bound holds all the same.
func TestEvidenceBounded(t *testing.T) {
	d := Dispatch{Proof: ProofChildReaped}
	for range MaxEvidence {
		d.Evidence = append(d.Evidence, Evidence{Proof: ProofNeverLaunched})
	}
	if d.wants(ProofNotEnqueued) {
		t.Error("more evidence is wanted than is kept")
	}
	if d.addProof(ProofNotEnqueued, 1); len(d.Evidence) != MaxEvidence {
		t.Errorf("%d proofs", len(d.Evidence))
	}
}

// wrongIndex is a View whose list of closed jobs is wrong.
type wrongIndex struct {
	liveView
	listed []ID
}

func (w wrongIndex) Closed(Millis, int) []ID { return w.listed }

// TestRemoveOnlyClosed: an open job is not removed on the word of a wrong index.
func TestRemoveOnlyClosed(t *testing.T) {
	l := NewLive()
	l.LoadCluster(Cluster{ClusterID: 1})
	l.LoadJob(&Record{ID: 1, State: StatePending})
	c := RemoveResolved{Header: Header{At: 9, Actor: "ann"}, Before: 9, Limit: 5}
	change, refusal := Apply(wrongIndex{liveView{l}, []ID{1, 2}}, Position{}, c)
	if refusal != nil || len(change.Jobs) != 0 || change.Answer.Count != 0 {
		t.Errorf("%v, %v", change, refusal)
	}
}
