package job_test

import (
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
	"github.com/lancemaster/lancemaster/internal/job/jobtest"
)

// What was lost may have handed out ids: neither a job's nor a backend's is given
// again.
func TestNoIDIsGivenAgainAfterAQuarantine(t *testing.T) {
	s := jobtest.Formed()
	head := job.Header{At: 1000, Actor: "ann"}
	add := job.AddBackend{Header: head, Address: job.Address{Host: "h", BePort: 1, HeartbeatPort: 2}}
	if _, refusal := s.Apply(add); refusal != nil {
		t.Fatal(refusal)
	}
	before := s.Cluster()
	if _, refusal := s.Apply(job.Quarantine{Header: head, Incarnation: 2, Cause: "restored", Members: jobtest.Members("m")}); refusal != nil {
		t.Fatal(refusal)
	}
	after := s.Cluster()
	if jump := int64(after.NextJob - before.NextJob); jump != 1<<32 {
		t.Errorf("job ids jump by %d", jump)
	}
	if jump := int64(after.NextBackend - before.NextBackend); jump != 1<<32 {
		t.Errorf("backend ids jump by %d", jump)
	}
}
