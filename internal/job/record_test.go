package job

import "testing"

// TestCloneSharesNothing: what is appended to one clone does not show in another,
// even where the record's lists have room to grow.
func TestCloneSharesNothing(t *testing.T) {
	r := &Record{
		LateResults: make([]LateResult, 1, 4),
		Dispatch:    Dispatch{Evidence: make([]Evidence, 1, 4)},
		Refresh:     Refresh{LastFailure: &Failure{Message: "was"}},
		LateRefresh: Refresh{LastFailure: &Failure{Message: "was"}},
		Result:      &Result{Message: "was"}, ForceRelease: &Release{Note: "was"}, SlotRelease: &Release{Note: "was"},
	}
	a, b := r.Clone(), r.Clone()
	for _, c := range []*Record{a, b} {
		message := map[*Record]string{a: "a", b: "b"}[c]
		c.LateResults = append(c.LateResults, LateResult{Message: message})
		c.Dispatch.Evidence = append(c.Dispatch.Evidence, Evidence{At: Millis(len(message))})
		c.Refresh.LastFailure.Message, c.LateRefresh.LastFailure.Message = message, message
		c.Result.Message, c.ForceRelease.Note, c.SlotRelease.Note = message, message, message
	}
	b.Dispatch.Evidence[1].At = 99
	if a.LateResults[1].Message != "a" || a.Dispatch.Evidence[1].At != 1 || a.Result.Message != "a" {
		t.Errorf("one clone shows in another: %+v", *a)
	}
	if r.Result.Message != "was" || r.ForceRelease.Note != "was" || r.SlotRelease.Note != "was" ||
		r.Refresh.LastFailure.Message != "was" || r.LateRefresh.LastFailure.Message != "was" || len(r.LateResults) != 1 {
		t.Errorf("a clone shows in its record: %+v", *r)
	}
}
