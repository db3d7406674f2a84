/**
 * What the build for testing upgrades (build tag nextlevel) journals beyond
 * journal.thrift: its feature level 2. No release reads or writes any of it.
 *
 * Numbers are far from those that a real level 2 will use. Where a struct of
 * journal.thrift gets a field, it stands here again, whole; its other fields are
 * held to those of journal.thrift by the golden files of internal/command.
 */
namespace go journalnext

include "journal.thrift"

struct TTermStart {
  1: required journal.THeader header
  2: required i64 term
  1000: optional string version = ""
}

struct TClusterRecord {
  1: required i32 cluster_id
  2: required i64 formed_at_ms
  3: required i64 incarnation
  4: required i32 level
  5: required i64 next_job_id
  6: required i64 next_backend_id
  7: required i64 last_term
  8: optional bool quarantined = false
  9: optional i64 quarantined_at_ms = 0
  10: optional string quarantine_cause = ""
  11: optional i64 reopened_at_ms = 0
  12: optional string reopened_by = ""
  13: optional string reopen_note = ""
  1000: optional string leader_version = ""
}

/** Command kind 60000. */
struct TAnnotate {
  1: required journal.THeader header
  2: required i64 job_id
  3: required string note
}
