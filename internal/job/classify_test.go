package job_test

import (
	"fmt"
	"testing"

	"github.com/lancemaster/lancemaster/internal/job"
)

// TestClassify is the contract's table, row by row, for each mutation, with and
// without if_exists and external_metadata_advanced.
func TestClassify(t *testing.T) {
	const (
		committed    = job.StateCommitted
		notCommitted = job.StateNotCommitted
		unknown      = job.StateUnknown
		required     = job.RefreshRequired
		notRequired  = job.RefreshNotRequired
	)
	type cell struct {
		state    job.State
		refresh  job.RefreshState // without external_metadata_advanced
		advanced job.RefreshState // with it
	}
	pre := cell{notCommitted, notRequired, required}
	rows := []struct {
		code         job.ResultCode
		wire         uint8
		build        cell // CREATE and REPLACE
		drop         cell
		noopIfExists bool
	}{
		{job.CodeStaleAdmission, 1, pre, pre, false},
		{job.CodeUnsupportedSchemaContract, 2, pre, pre, false},
		{job.CodeCredentialExpired, 3, pre, pre, false},
		{job.CodeResourceRejected, 4, pre, pre, false},
		{job.CodeNativeOK, 5, cell{committed, required, required}, cell{committed, required, required}, false},
		{job.CodeNativeCommitConflict, 6, cell{notCommitted, required, required}, cell{notCommitted, required, required}, false},
		{job.CodeNativeNotFound, 7, cell{unknown, notRequired, notRequired}, cell{notCommitted, required, required}, true},
		{job.CodeNativeInvalidArgument, 8, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
		{job.CodeNativeNotSupported, 9, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
		{job.CodeNativeIndex, 10, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
		{job.CodeNativeIO, 11, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
		{job.CodeNativeInternal, 12, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
		{job.CodeNoTrustedResult, 100, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
		// A number of no contract.
		{job.ResultCode(13), 13, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
		{job.ResultCode(0), 0, cell{unknown, notRequired, notRequired}, cell{unknown, notRequired, notRequired}, false},
	}
	for _, row := range rows {
		if uint8(row.code) != row.wire {
			t.Errorf("%s is %d on the wire, want %d", row.code, uint8(row.code), row.wire)
		}
		for _, m := range []job.Mutation{job.MutationCreate, job.MutationReplace, job.MutationDrop} {
			for _, ifExists := range []bool{false, true} {
				for _, advanced := range []bool{false, true} {
					want := row.build
					if m == job.MutationDrop {
						want = row.drop
					}
					outcome := job.Outcome{State: want.state, Refresh: want.refresh, Reason: job.ReasonNone}
					if advanced {
						outcome.Refresh = want.advanced
					}
					if row.noopIfExists && m == job.MutationDrop && ifExists {
						outcome.Reason = job.ReasonIfConditionNoop
					}
					name := fmt.Sprintf("%s/%s/%v/%v", row.code, m, ifExists, advanced)
					if got := job.Classify(m, ifExists, row.code, advanced); got != outcome {
						t.Errorf("%s: %+v, want %+v", name, got, outcome)
					}
				}
			}
		}
	}
}

// TestEveryCodeClassified catches a code that is added without a row above.
func TestEveryCodeClassified(t *testing.T) {
	known := 0
	for c := range job.ResultCode(255) {
		if c.Valid() {
			known++
		}
	}
	if known != 13 {
		t.Errorf("%d result codes; TestClassify has rows for 13", known)
	}
}
