package stub

import (
	"testing"
	"time"

	"github.com/lancemaster/lancemaster/gen-go/shared"
)

func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		parse func(string) (int32, error)
		text  string
		want  int32
		ok    bool
	}{
		{parseStatusNumber, "OK", 0, true}, {parseStatusNumber, "NOT_MASTER", 73, true}, {parseStatusNumber, "-1", -1, true}, {parseStatusNumber, "ok", 0, false},
		{parseStatusNumber, "", 0, false}, {parseStatusNumber, "2147483648", 0, false},
		{parseCode, "NATIVE_INTERNAL", 12, true}, {parseCode, "0", 0, true}, {parseCode, "OK", 0, false},
		{parseProof, "NEVER_LAUNCHED", 3, true}, {parseProof, "99", 99, true}, {parseProof, "0", 0, false}, {parseProof, "GONE", 0, false},
	} {
		if got, err := tt.parse(tt.text); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("%q is read as %d, %v", tt.text, got, err)
		}
	}
}

// A late report waits for the deadline of the dispatch.
func TestReportsLate(t *testing.T) {
	const after = 20 * time.Millisecond
	m := &reportSink{}
	ended := make(chan error, 1)
	s := start(t, Report{Outcome: Outcome{Code: 5}, Late: true, After: after, Done: func(err error) { ended <- err }}, nil)
	wantBeat(t, s, masterInfo(m.serve(t)), shared.TStatusCode_OK)
	d := dispatch()
	d.DeadlineMs = now.Add(50 * time.Millisecond).UnixMilli()
	began := time.Now()
	wantStatus(t, s, d, shared.TStatusCode_OK)
	select {
	case err := <-ended:
		if took := time.Since(began); err != nil || took < 50*time.Millisecond+after {
			t.Errorf("reported after %s, %v", took, err)
		}
	case <-time.After(bound):
		t.Fatal("no report")
	}
}
