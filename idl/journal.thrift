/**
 * What the journal and the state file hold: the payload of every command and of
 * every stored record. It never travels to a client or a backend.
 *
 * internal/command puts an envelope before each of these structs (format,
 * feature level, kind number) and writes them in the compact protocol. The bytes
 * are pinned by golden files there.
 *
 * Rules, because what is written here stays on disk for years:
 *  - Numbers are never reused and never change. Add at the end only.
 *  - A new field is optional, is left out at its default, and is written only
 *    once its feature level is in force; see internal/command.
 *  - Lists of sorted pairs, never maps: the same value is always the same bytes.
 *
 * Times are UTC milliseconds; 0 means that it has not happened. Raft indexes and
 * terms are unsigned and are kept in the bits of an i64.
 */
namespace go journal

// ---- numbers ----------------------------------------------------------------

enum TState {
  PENDING = 1
  RUNNING = 2
  COMMITTED = 3
  NOT_COMMITTED = 4
  UNKNOWN = 5
}

enum TRefreshState {
  NOT_REQUIRED = 1
  REQUIRED = 2
  RUNNING = 3
  DONE = 4
  FAILED = 5
}

enum TMutation {
  CREATE = 1
  REPLACE = 2
  DROP = 3
}

enum TResultCode {
  PRE_INVOCATION_STALE_ADMISSION = 1
  PRE_INVOCATION_UNSUPPORTED_SCHEMA_CONTRACT = 2
  PRE_INVOCATION_CREDENTIAL_EXPIRED = 3
  PRE_INVOCATION_RESOURCE_REJECTED = 4
  NATIVE_OK = 5
  NATIVE_COMMIT_CONFLICT = 6
  NATIVE_NOT_FOUND = 7
  NATIVE_INVALID_ARGUMENT = 8
  NATIVE_NOT_SUPPORTED = 9
  NATIVE_INDEX = 10
  NATIVE_IO = 11
  NATIVE_INTERNAL = 12
  NO_TRUSTED_RESULT = 100
}

enum TReason {
  NONE = 1
  IF_CONDITION_NOOP = 2
  CANCELLED_BEFORE_DISPATCH = 3
  REFUSED_BEFORE_DISPATCH = 4
  QUARANTINED = 5
  LEADER_CHANGED = 6
}

enum TProof {
  NONE = 1
  CHILD_REAPED = 2
  NEVER_LAUNCHED = 3
  BE_PROCESS_EPOCH_GONE = 100
  NOT_ENQUEUED = 101
}

enum TSnapshotSource {
  MANIFEST = 1
  CALLER = 2
}

enum TBackendState {
  ACTIVE = 1
  DRAINING = 2
}

enum TRole {
  READ = 1
  SUBMIT = 2
  OPERATE = 3
  ADMIN = 4
}

// ---- parts ------------------------------------------------------------------

/** The time and the name of whoever asked, as the leader saw them. */
struct THeader {
  1: required i64 at_ms
  2: required string actor
}

struct TTarget {
  1: required string catalog
  2: required string store
  3: required string database_name
  4: required string table_name
  5: required string provider
  6: required string locator
  7: required string index_name
  8: required string index_key
}

struct TSpec {
  1: required TMutation mutation
  2: required bool if_not_exists
  3: required bool if_exists
  4: required string index_type
  5: required string column
  6: required string properties_json
  7: required i32 max_num_partitions
  8: required i32 max_num_sub_vectors
  9: required i64 execute_deadline_ms
}

struct TSnapshot {
  1: required i64 dataset_version
  2: required string schema_contract_json
  3: required TSnapshotSource source
}

struct TIdentity {
  1: required i64 job_id
  2: required i64 dispatch_revision
  3: required string invocation_id
  4: required i64 process_epoch
}

struct TSettingValue {
  1: required string name
  2: required string value
}

struct TOption {
  1: required string key
  2: optional string value = ""
  3: optional string ref = ""
}

struct TRefresher {
  1: required string kind
  2: optional string url = ""
  3: optional list<string> frontends
  4: optional string user = ""
  5: optional string password_ref = ""
  6: optional string ca_ref = ""
  7: optional bool tls = false
  8: optional i64 timeout_ms = 0
}

struct TAddress {
  1: required string host
  2: required i32 be_port
  3: required i32 heartbeat_port
}

struct TLabel {
  1: required string key
  2: required string value
}

// ---- records ----------------------------------------------------------------
// Kind numbers in internal/command: job 1, event 2, catalog 3, backend 4,
// cluster 5, setting change 6, member 7, token 8.

struct TEvidence {
  1: required TProof proof
  2: required i64 at_ms
}

struct TDispatch {
  1: required i64 backend_id
  2: required i64 process_epoch
  3: required i64 dispatch_revision
  4: required string invocation_id
  /** SHA-256 of the invocation's secret; the secret itself is never stored. */
  5: optional binary secret_hash
  6: required i64 started_at_ms
  7: required i64 deadline_at_ms
  8: required bool slot_held
  /** 0: none yet. */
  9: required TProof proof
  10: optional i64 proof_at_ms = 0
  /** Oldest first. */
  11: optional list<TEvidence> evidence
}

struct TFailure {
  1: required i64 at_ms
  2: required string message
}

struct TRefresh {
  1: required TRefreshState state
  2: optional i64 attempt = 0
  3: optional i64 started_at_ms = 0
  4: optional i64 finished_at_ms = 0
  5: optional string evidence = ""
  6: optional TFailure last_failure
}

struct TResult {
  /** 0: the job was never invoked. */
  1: required TResultCode code
  2: required TReason reason
  3: required string message
  4: required bool metadata_advanced
  5: required i64 at_ms
}

struct TLateResult {
  1: required TResultCode code
  2: required string message
  3: required bool metadata_advanced
  4: required i64 at_ms
}

struct TRelease {
  1: required string actor
  2: required i64 at_ms
  3: required string note
  4: required string warning
}

struct TJobRecord {
  1: required i64 job_id
  2: required string creator
  3: optional string request_id = ""
  4: optional binary request_hash
  5: required i64 revision
  6: required i64 created_at_ms
  7: required i64 updated_at_ms
  8: optional i64 resolved_at_ms = 0
  9: optional i64 closed_at_ms = 0
  10: required TTarget target
  11: required TSpec spec
  12: required TSnapshot snapshot
  /** Absent until RUNNING is entered. */
  13: optional TDispatch dispatch
  14: required TState state
  15: required TRefresh refresh
  16: optional TResult result
  17: optional list<TLateResult> late_results
  18: required TRefresh late_refresh
  19: optional i64 quarantined_at_ms = 0
  20: optional TRelease force_release
  21: optional TRelease slot_release
}

struct TJobEvent {
  1: required i64 job_id
  2: required i64 revision
  3: required i64 raft_index
  4: required i64 raft_term
  5: required i64 at_ms
  6: required string actor
  7: required string kind
  /** 0 at admission. */
  8: required TState from_state
  9: required TState to_state
  /** 0 at admission. */
  10: required TRefreshState from_refresh
  11: required TRefreshState to_refresh
  12: required string reason
}

struct TCatalogRecord {
  1: required string name
  2: optional string store = ""
  /** Sorted by key. */
  3: optional list<TOption> options
  4: required TRefresher refresher
  5: required i64 revision
  6: required i64 created_at_ms
  7: required i64 updated_at_ms
  8: required string updated_by
}

struct TBackendRecord {
  1: required i64 backend_id
  2: required TAddress address
  3: required TBackendState state
  /** Sorted by key. */
  4: optional list<TLabel> labels
  5: required i64 created_at_ms
  6: required i64 updated_at_ms
  7: required string updated_by
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
}

struct TSettingChange {
  1: required string name
  2: required string old_value
  3: required string new_value
  4: required i64 at_ms
  5: required string actor
  6: optional bool is_reset = false
}

struct TMember {
  1: required string node_id
  2: required string instance_id
  3: required string address
  /** Set by the transition; a command leaves these out. */
  4: optional i64 registered_at_index = 0
  5: optional i64 added_at_ms = 0
  6: optional string added_by = ""
}

struct TToken {
  1: required string name
  2: required TRole role
  /** SHA-256 of the token's text; the text itself is never stored. */
  3: optional binary token_hash
  4: required i64 created_at_ms
  5: required string created_by
}

// ---- commands ---------------------------------------------------------------
// Kind numbers in internal/command, in the order in which they stand here.

struct TForm {
  1: required THeader header
  2: required i32 cluster_id
  3: required i32 level
  4: required list<TSettingValue> settings
  /** Sorted by node id. */
  5: required list<TMember> members
}

struct TAdmit {
  1: required THeader header
  2: optional string request_id = ""
  3: optional binary request_hash
  4: required TTarget target
  5: required TSpec spec
  6: required TSnapshot snapshot
}

struct TMarkRunning {
  1: required THeader header
  2: required i64 job_id
  3: required i64 expected_revision
  4: required i64 backend_id
  5: required i64 process_epoch
  6: required string invocation_id
  7: optional binary secret_hash
  8: required i64 deadline_at_ms
}

struct TComplete {
  1: required THeader header
  2: required TIdentity identity
  3: required TResultCode code
  4: required string message
  5: required bool metadata_advanced
  6: required TProof proof
  7: required bool not_enqueued
}

struct TRecordTermination {
  1: required THeader header
  2: required TIdentity identity
  3: required i64 backend_id
  4: required TProof proof
}

struct TRefreshStart {
  1: required THeader header
  2: required i64 job_id
  3: required i64 expected_revision
}

struct TRefreshFinish {
  1: required THeader header
  2: required i64 job_id
  3: required i64 attempt
  4: required bool failed
  5: required string evidence
  6: required string message
}

struct TCancel {
  1: required THeader header
  2: required i64 job_id
  3: required i64 expected_revision
  /** May be empty. */
  4: required string note
}

struct TRejectBeforeDispatch {
  1: required THeader header
  2: required i64 job_id
  3: required i64 expected_revision
  4: required string message
}

struct TForceRelease {
  1: required THeader header
  2: required i64 job_id
  3: required i64 expected_revision
  4: required string note
  5: required string warning
}

struct TReleaseSlot {
  1: required THeader header
  2: required i64 job_id
  3: required i64 expected_revision
  4: required string note
}

struct TRecordLateResult {
  1: required THeader header
  2: required TIdentity identity
  3: required TResultCode code
  4: required string message
  5: required bool metadata_advanced
  6: required TProof proof
}

struct TQuarantine {
  1: required THeader header
  2: required i64 incarnation
  3: required string cause
  /** Sorted by node id. */
  4: required list<TMember> members
}

struct TTermStart {
  1: required THeader header
  2: required i64 term
}

struct TRemoveResolved {
  1: required THeader header
  2: required i64 before_ms
  3: required i32 limit
}

struct TPutCatalog {
  1: required THeader header
  2: required i64 expected_revision
  3: required TCatalogRecord catalog
}

struct TRemoveCatalog {
  1: required THeader header
  2: required string name
}

struct TAddBackend {
  1: required THeader header
  2: required TAddress address
  /** Sorted by key. */
  3: optional list<TLabel> labels
}

struct TSetBackendState {
  1: required THeader header
  2: required i64 backend_id
  3: required TBackendState state
}

struct TRemoveBackend {
  1: required THeader header
  2: required i64 backend_id
}

struct TChangeSettings {
  1: required THeader header
  /** Sorted by name. */
  2: required list<TSettingValue> values
  3: optional bool is_reset = false
}

struct TRaiseLevel {
  1: required THeader header
  2: required i32 level
  3: required list<TSettingValue> defaults
}

struct TReopen {
  1: required THeader header
  2: required string note
  3: required bool masters_stopped
  4: required bool backends_restarted
}

struct TPutMember {
  1: required THeader header
  2: required string node_id
  3: required string instance_id
  4: required string address
  5: optional string replaces = ""
}

struct TRemoveMember {
  1: required THeader header
  2: required string node_id
}

struct TPutToken {
  1: required THeader header
  2: required string name
  3: required TRole role
  /** As in TToken. */
  4: optional binary token_hash
}

struct TRemoveToken {
  1: required THeader header
  2: required string name
}
