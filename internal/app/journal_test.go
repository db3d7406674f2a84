package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lancemaster/lancemaster/internal/fsm"
	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/raftnode"
)

type fakeRaft struct {
	response any
	err      error
}

func (f fakeRaft) Propose(context.Context, []byte) (any, uint64, error) { return f.response, 7, f.err }

// Every way a proposal can end, told apart: refused, certainly not appended, and
// everything else, which nobody may take for either.
func TestProposalsEndInOneOfFourWays(t *testing.T) {
	cancel := job.Cancel{Header: job.Header{At: 1, Actor: "ann"}, Job: 3, Expected: 0}
	refusal := &job.Refusal{Code: job.CodeRevisionMismatch, Message: "it moved on"}
	applied := &fsm.Result{Answer: job.Answer{Job: &job.Record{ID: 3}}}
	for name, tc := range map[string]struct {
		raft    fakeRaft
		command job.Command
		want    string
	}{
		"applied":            {fakeRaft{response: applied}, cancel, "applied"},
		"refused":            {fakeRaft{response: &fsm.Result{Refusal: refusal}}, cancel, "refused"},
		"not appended":       {fakeRaft{err: fmt.Errorf("%w: %w", raftnode.ErrNotAppended, raftnode.ErrNotLeader)}, cancel, "not_appended"},
		"not to be encoded":  {fakeRaft{response: applied}, job.Cancel{Header: job.Header{At: 1, Actor: strings.Repeat("x", 5000)}}, "not_appended"},
		"leadership lost":    {fakeRaft{err: raftnode.ErrLeadershipLost}, cancel, "unknown"},
		"time is over":       {fakeRaft{err: context.DeadlineExceeded}, cancel, "unknown"},
		"the machine failed": {fakeRaft{response: &fsm.Result{Err: fmt.Errorf("disk: %w", refusal)}}, cancel, "unknown"},
		"replayed":           {fakeRaft{response: &fsm.Result{Replayed: true}}, cancel, "unknown"},
		"another answer":     {fakeRaft{response: errors.New("odd")}, cancel, "unknown"},
		"no answer":          {fakeRaft{}, cancel, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			observed := 0
			r := prometheus.NewPedanticRegistry()
			j := newJournal(tc.raft, slog.New(slog.NewTextHandler(&log, nil)), r, func(*fsm.Result) { observed++ })
			answer, err := j.Propose(t.Context(), tc.command)
			got := "unknown"
			switch {
			case err == nil:
				got = "applied"
			case job.IsCode(err, job.CodeRevisionMismatch):
				got = "refused"
			case errors.Is(err, job.ErrNotAppended):
				got = "not_appended"
			}
			if got != tc.want {
				t.Errorf("it counts as %s, want %s: %v", got, tc.want, err)
			}
			if wantSeen := tc.want == "applied"; (observed == 1) != wantSeen || (answer.Job != nil) != wantSeen {
				t.Errorf("observed %d times, answered %+v", observed, answer)
			}
			if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
				t.Error(problems, err)
			}
			if !strings.Contains(gathered(t, r), fmt.Sprintf("result:%s count:1", tc.want)) {
				t.Errorf("counted are %s", gathered(t, r))
			}
		})
	}
}

func gathered(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				fmt.Fprintf(&out, "%s:%s count:%d ", l.GetName(), l.GetValue(), m.GetHistogram().GetSampleCount())
			}
		}
	}
	return out.String()
}

// One line for each transition of a job, with what an operator looks for.
func TestTransitionsAreLogged(t *testing.T) {
	var log strings.Builder
	result := &fsm.Result{Changes: job.Change{Jobs: []job.JobChange{
		{New: &job.Record{ID: 3}, Event: &job.Event{
			Job: 3, Revision: 2, Term: 9, Actor: "backend:1", Kind: job.EventCompleted, From: job.StateRunning, To: job.StateCommitted,
			FromRefresh: job.RefreshNotRequired, ToRefresh: job.RefreshRequired, Reason: "NATIVE_OK",
		}},
		{Old: &job.Record{ID: 1}}, // removed
	}}}
	j := newJournal(fakeRaft{response: result}, slog.New(slog.NewTextHandler(&log, nil)), prometheus.NewRegistry(), func(*fsm.Result) {})
	if _, err := j.Propose(t.Context(), job.Cancel{Header: job.Header{At: 1, Actor: "ann"}, Job: 3}); err != nil {
		t.Fatal(err)
	}
	want := `msg="job transition" job=3 revision=2 kind=COMPLETED from=RUNNING to=COMMITTED refresh=REQUIRED term=9 actor=backend:1 reason=NATIVE_OK`
	if !strings.Contains(log.String(), want) || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("logged %q", log.String())
	}
}
