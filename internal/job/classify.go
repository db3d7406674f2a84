package job

// Outcome is what a result means for a job.
type Outcome struct {
	State   State
	Refresh RefreshState
	Reason  Reason
}

// Classify says what a result code means for a mutation. It looks at typed values
// only; no message is ever read. A code it does not know means UNKNOWN, since
// nothing safe follows from it.
func Classify(m Mutation, ifExists bool, code ResultCode, metadataAdvanced bool) Outcome {
	switch code {
	case CodeStaleAdmission, CodeUnsupportedSchemaContract, CodeCredentialExpired, CodeResourceRejected:
		if metadataAdvanced {
			return Outcome{StateNotCommitted, RefreshRequired, ReasonNone}
		}
		return Outcome{StateNotCommitted, RefreshNotRequired, ReasonNone}
	case CodeNativeOK:
		return Outcome{StateCommitted, RefreshRequired, ReasonNone}
	case CodeNativeCommitConflict:
		return Outcome{StateNotCommitted, RefreshRequired, ReasonNone}
	case CodeNativeNotFound:
		if m != MutationDrop {
			break
		}
		if ifExists {
			return Outcome{StateNotCommitted, RefreshRequired, ReasonIfConditionNoop}
		}
		return Outcome{StateNotCommitted, RefreshRequired, ReasonNone}
	default:
		// NATIVE_INVALID_ARGUMENT to NATIVE_INTERNAL, no trusted result, and
		// whatever a later contract may bring.
	}
	return Outcome{StateUnknown, RefreshNotRequired, ReasonNone}
}
