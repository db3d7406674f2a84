/**
 * What a backend calls on the master (default port 9020): the outcome of an
 * invocation, and the proof that its worker is gone.
 *
 * OK means: applied, or dropped for good; never retry it. A failed call (a
 * transport error or an exception) was not recorded; retry it.
 */
namespace go report

include "shared.thrift"

struct TLanceIndexJobReport {
  1: required i64 job_id
  2: required i64 dispatch_revision
  3: required string invocation_id
  4: required i64 be_process_epoch
  5: required shared.TLanceIndexResultCode result_code
  6: optional shared.TLanceIndexCompletionReason completion_reason
  7: optional string sanitized_message
  8: optional bool external_metadata_advanced
  9: optional shared.TLanceIndexTerminationProof termination_proof
  /** The secret of the dispatch, echoed: 32 hexadecimal digits as sent. */
  10: optional string invocation_secret
}

struct TLanceIndexJobTerminationReport {
  1: required i64 job_id
  2: required i64 dispatch_revision
  3: required string invocation_id
  4: required i64 be_process_epoch
  5: required shared.TLanceIndexTerminationProof proof
  6: optional string invocation_secret
}

service ReportService {
  shared.TStatus reportLanceIndexJobResult(1: TLanceIndexJobReport report)
  shared.TStatus reportLanceIndexJobTermination(1: TLanceIndexJobTerminationReport report)
}
