package peer

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	self := Identity{ClusterID: 7, Incarnation: 2, NodeID: "m1", InstanceID: "d1", RegisteredAt: 3, Level: 1, MaxLevel: 1, Version: "v1"}
	other := Identity{ClusterID: 7, Incarnation: 2, NodeID: "m2", InstanceID: "d2", RegisteredAt: 5, Level: 1, MaxLevel: 2, Version: "v2"}
	const applied = 100
	registered := func(nodeID string) (string, uint64, bool) {
		instance, ok := map[string]string{"m1": "d1", "m2": "d2"}[nodeID]
		return instance, 5, ok
	}
	for name, test := range map[string]struct {
		change   func(self, other *Identity)
		code     Code // empty: a member
		stranger bool
		says     string
	}{
		"a member":                     {},
		"itself":                       {change: func(s, o *Identity) { *o = *s }},
		"another cluster":              {change: func(_, o *Identity) { o.ClusterID = 8 }, code: CodeOtherCluster, says: "cluster.members"},
		"no cluster there":             {change: func(_, o *Identity) { o.ClusterID = 0 }, code: CodeNotFormed, stranger: true, says: "node m2 belongs"},
		"no cluster here":              {change: func(s, _ *Identity) { s.ClusterID = 0 }, code: CodeNotFormed, stranger: true, says: "node m1 belongs"},
		"no incarnation known there":   {change: func(_, o *Identity) { o.Incarnation = 0 }, code: CodeNotFormed, stranger: true},
		"no incarnation known here":    {change: func(s, _ *Identity) { s.Incarnation = 0 }, code: CodeNotFormed, stranger: true},
		"of before a restore":          {change: func(_, o *Identity) { o.Incarnation = 1 }, code: CodeOldIncarnation, says: "stop m2, empty its data directory"},
		"of after a restore":           {change: func(_, o *Identity) { o.Incarnation = 3 }, code: CodeNewIncarnation, says: "stop m1, empty its data directory"},
		"another under the same name":  {change: func(_, o *Identity) { o.NodeID = "m1" }, code: CodeDuplicateNode, says: "node_id"},
		"the same, of no cluster":      {change: func(_, o *Identity) { o.NodeID, o.ClusterID = "m1", 0 }, code: CodeDuplicateNode},
		"never registered":             {change: func(_, o *Identity) { o.NodeID = "m3" }, code: CodeUnknownMember, stranger: true, says: "cluster add"},
		"not registered yet":           {change: func(_, o *Identity) { o.NodeID, o.RegisteredAt = "m3", 0 }, code: CodeUnknownMember, stranger: true},
		"registered at the last entry": {change: func(_, o *Identity) { o.NodeID, o.RegisteredAt = "m3", applied }, code: CodeUnknownMember, stranger: true},
		"registered meanwhile":         {change: func(_, o *Identity) { o.NodeID, o.RegisteredAt = "m3", applied+1 }},
		"another disk":                 {change: func(_, o *Identity) { o.InstanceID = "d9" }, code: CodeOtherInstance, stranger: true, says: "lancemaster cluster replace m2"},
		"replaced meanwhile":           {change: func(_, o *Identity) { o.InstanceID, o.RegisteredAt = "d9", applied+1 }},
		"a newer level":                {change: func(_, o *Identity) { o.Level = 2 }, code: CodeUnsupportedLevel, says: "upgrade m1"},
		"a newer level, of no cluster": {change: func(s, o *Identity) { o.Level, s.ClusterID = 2, 0 }, code: CodeUnsupportedLevel},
		"an older build":               {change: func(s, o *Identity) { s.Level, s.MaxLevel, o.MaxLevel = 2, 2, 1 }},
		"old and another cluster":      {change: func(_, o *Identity) { o.ClusterID, o.Incarnation = 8, 1 }, code: CodeOtherCluster},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := self, other
			if test.change != nil {
				test.change(&s, &o)
			}
			got := Check(s, registered, applied, o)
			switch {
			case got == nil:
				if test.code != "" {
					t.Fatalf("a member, want %s", test.code)
				}
			case got.Code != test.code || got.Stranger() != test.stranger || got.ByOther:
				t.Fatalf("%s (stranger: %v), want %q (%v)", got.Code, got.Stranger(), test.code, test.stranger)
			case !strings.Contains(got.Message, test.says):
				t.Errorf("%q does not say %q", got.Message, test.says)
			}
			for _, kind := range []Kind{KindRaft, KindCall} {
				member, err := Decide(kind, got)
				if member != (got == nil) || (err == nil) != (got == nil || (kind == KindCall && test.stranger)) {
					t.Errorf("a connection for %s: member %v, %v", kind, member, err)
				}
			}
		})
	}
}

func TestIdentitiesThatNoNodeSends(t *testing.T) {
	good := member("m1")
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Identity){
		"no node":       func(i *Identity) { i.NodeID = "" },
		"no instance":   func(i *Identity) { i.InstanceID = "" },
		"a long name":   func(i *Identity) { i.NodeID = strings.Repeat("x", maxName+1) },
		"a new line":    func(i *Identity) { i.Version = "v1\nforged" },
		"no plain text": func(i *Identity) { i.InstanceID = "\xff" },
	} {
		bad := member("m1")
		change(&bad)
		if bad.check() == nil {
			t.Errorf("%s passes", name)
		}
	}
}
