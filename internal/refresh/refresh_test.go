package refresh

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

type scripted struct {
	evidence string
	err      error
}

func (s scripted) Refresh(context.Context, Spec, Attempt) (string, error) { return s.evidence, s.err }

func TestRegistry(t *testing.T) {
	down := errors.New("frontend down")
	registry := NewRegistry(map[string]Refresher{
		"good":   scripted{evidence: "HTTP 200"},
		"down":   scripted{evidence: "HTTP 200", err: down},
		"silent": scripted{evidence: " \n"},
	})
	tests := []struct{ kind, evidence, fails string }{
		{"none", NoneEvidence, ""},
		{"good", "HTTP 200", ""},
		{"down", "", "frontend down"},
		{"silent", "", "gave no evidence"},
		{"other", "", `no refresher "other" in this build, which knows down, good, none, silent`},
		{"", "", `no refresher ""`},
	}
	for _, tt := range tests {
		t.Run(tt.kind, func(t *testing.T) {
			evidence, err := registry.Refresh(t.Context(), Spec{Kind: tt.kind}, Attempt{Job: 1, Number: 1})
			if evidence != tt.evidence {
				t.Errorf("evidence %q, want %q", evidence, tt.evidence)
			}
			if (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("error %v, want one with %q", err, tt.fails)
			}
		})
	}
	if _, err := registry.Refresh(t.Context(), Spec{Kind: "down"}, Attempt{}); !errors.Is(err, down) {
		t.Errorf("error %v does not wrap the refresher's", err)
	}
	if got := NewRegistry(nil).Kinds(); !slices.Equal(got, []string{"none"}) {
		t.Errorf("a registry of nothing more knows %v", got)
	}
}
