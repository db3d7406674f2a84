package testcluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/lancemaster/lancemaster/internal/client"
	"github.com/lancemaster/lancemaster/internal/oracle"
)

// What the oracle says of a run is worth something only if it says so of a run that went wrong: each
// violation is planted in the facts of one that went well.
func TestPlantedViolationsAreFound(t *testing.T) {
	const seed = 3
	plan := usualPlan(t, seed)
	var run *Run
	inBubble(t, seed, func(t *testing.T) {
		var faults []string
		if run, faults = Perform(plan); len(faults) > 0 {
			t.Fatalf("the run itself has faults: %s\n%s", strings.Join(faults, "\n"), run.Schedule)
		}
	})
	done := func(f *oracle.Final) *client.Job {
		i := slices.IndexFunc(f.Jobs, func(j client.Job) bool { return j.State == client.StateCommitted && !j.FenceHeld })
		if i < 0 {
			t.Fatal("no job of the run was committed")
		}
		return &f.Jobs[i]
	}
	for name, c := range map[string]struct {
		plant func(*oracle.Facts, *oracle.Final)
		says  string
	}{
		"a job is sent twice": {func(f *oracle.Facts, l *oracle.Final) {
			i := slices.IndexFunc(f.Sends, func(s oracle.Send) bool { return s.Job == done(l).ID })
			again := f.Sends[i]
			again.Invocation += "x"
			f.Sends = append(f.Sends, again)
		}, "was sent to"},
		"an acknowledged job is lost": {func(_ *oracle.Facts, l *oracle.Final) {
			id := done(l).ID
			l.Jobs = slices.DeleteFunc(l.Jobs, func(j client.Job) bool { return j.ID == id })
		}, "no job has it"},
		"a fence is freed before the refresh": {func(_ *oracle.Facts, l *oracle.Final) {
			j := done(l)
			h := slices.Clone(l.Histories[j.ID].Events)
			for i := range h {
				if h[i].ToRefresh == "DONE" {
					h[i].ToRefresh = "FAILED"
				}
			}
			l.Histories[j.ID] = client.History{Events: h}
		}, "by its history it was released at entry 0"},
		"two jobs hold one fence": {func(_ *oracle.Facts, l *oracle.Final) {
			j := *done(l)
			from := l.Histories[j.ID].Events
			j.ID, j.RequestID = 1<<40, "planted"
			h := slices.Clone(from)
			for i := range h {
				h[i].JobID = j.ID
			}
			l.Jobs, l.Histories[j.ID] = append(l.Jobs, j), client.History{Events: h}
		}, "took the fence"},
		"a read shows what was before": {func(f *oracle.Facts, l *oracle.Final) {
			j := done(l)
			f.Observations = append(f.Observations, oracle.Observation{
				Span: oracle.Span{From: l.At + 1, To: l.At + 2}, Job: j.ID, Revision: 0, State: "PENDING", FenceHeld: true, Fence: oracle.FenceOf(j),
			})
		}, "and after that as PENDING"},
		"a name is refused that nobody holds": {func(f *oracle.Facts, l *oracle.Final) {
			j := done(l)
			f.Submissions = append(f.Submissions, oracle.Submission{
				Span: oracle.Span{From: l.At + 1, To: l.At + 2}, RequestID: "planted", Fence: oracle.FenceOf(j), Mutation: "DROP", Refused: "FENCE_HELD", Holder: j.ID,
			})
		}, "has no order in which it is true"},
		"a worker is declared gone that was never there": {func(f *oracle.Facts, l *oracle.Final) {
			f.Proofs = append(f.Proofs, oracle.Proof{At: l.At, Job: done(l).ID, Proof: "NOT_ENQUEUED"})
		}, "was never enqueued, as its record proves"},
		"states differ": {func(_ *oracle.Facts, l *oracle.Final) { l.Nodes[1].Hash += "x" }, "and their states differ"},
		"a job never ends": {func(_ *oracle.Facts, l *oracle.Final) {
			done(l).State = "RUNNING"
		}, "it is still RUNNING"},
	} {
		t.Run(name, func(t *testing.T) {
			facts, final := run.Recorder.Facts(), run.Final
			final.Jobs, final.Nodes = slices.Clone(final.Jobs), slices.Clone(final.Nodes)
			histories := map[int64]client.History{}
			for id, h := range final.Histories {
				histories[id] = h
			}
			final.Histories = histories
			c.plant(&facts, &final)
			if faults := strings.Join(oracle.Check(facts, final), "\n"); !strings.Contains(faults, c.says) {
				t.Errorf("the oracle says %q, want something with %q", faults, c.says)
			}
		})
	}
}
