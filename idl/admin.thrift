/**
 * The admin service (default port 9021): submit, watch and understand jobs, and
 * run the cluster. Every request carries a context as field 1, because binary
 * Thrift has no headers. A refused call throws TAdminError, with a typed code
 * for programs and text that says what was refused, why, and what to do next.
 *
 * Times are UTC milliseconds; 0 means that it has not happened. Durations are
 * milliseconds.
 */
namespace go admin

include "shared.thrift"

/** Who is calling. It is field 1 of every request. */
struct TRequestContext {
  /** Authenticates the caller where tokens are configured. Never logged. */
  1: optional string token
  /** A name for the history, where nothing vouches for another; stored as unverified:NAME. */
  2: optional string client_name
  3: optional string client_version
  /**
   * Reads are answered by the master that is asked, from its own state, which may
   * be behind; without it by the leader, with all that was acknowledged before.
   * Nothing but a read takes it.
   */
  4: optional bool stale
}

/** The codes of TAdminError; equal to the codes of internal/job. */
enum TAdminErrorCode {
  INVALID = 1
  NOT_FOUND = 2
  ALREADY_EXISTS = 3
  GATE_CLOSED = 4
  FENCE_HELD = 5
  QUOTA_TABLE = 6
  QUOTA_CATALOG = 7
  QUOTA_GLOBAL = 8
  REQUEST_CONFLICT = 9
  REVISION_MISMATCH = 10
  WRONG_STATE = 11
  IDENTITY_MISMATCH = 12
  DISPATCH_PAUSED = 13
  BACKEND_NOT_ACTIVE = 14
  NO_SLOT = 15
  DUPLICATE = 16
  EVIDENCE_FULL = 17
  IN_USE = 18
  NOT_FORMED = 19
  ALREADY_FORMED = 20
  QUARANTINED = 21
  ATTEMPT_MISMATCH = 22
  STALE_TERM = 23
  UNSUPPORTED_LEVEL = 24
  INDEX_EXISTS = 25
  INDEX_MISSING = 26
  COLUMN = 27
  DATASET_MISSING = 28
  DATASET_DAMAGED = 29
  DATASET_UNREADABLE = 30
  LOCAL_DATASET = 31
  TOO_EARLY = 32
  NOT_LEADER = 33
  UNAVAILABLE = 34
  OUTCOME_UNKNOWN = 35
  INTERNAL = 36
  UNAUTHENTICATED = 37
  PERMISSION = 38
  TIMEOUT = 39
  REFRESH_FAILED = 40
}

exception TAdminError {
  1: required TAdminErrorCode code
  /** What was refused and why. */
  2: required string message
  /** What to do next; may be absent. */
  3: optional string next_step
  /** Where the leader's admin service listens, where that is known. */
  4: optional string leader_address
  /** The job that stands in the way, where one does. */
  5: optional i64 holder_job_id
  /** The job as it is now, where the refusal is about its revision or state. */
  6: optional TJob present
}

// ---- jobs -------------------------------------------------------------------

enum TJobState {
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

struct TJobTarget {
  1: required string catalog
  2: required string store
  3: required string database_name
  4: required string table_name
  5: required string provider
  6: required string locator
  7: required string index_name
  8: required string index_key
}

struct TJobSpec {
  1: required shared.TLanceIndexMutationType mutation
  2: required bool if_not_exists
  3: required bool if_exists
  4: required string index_type
  5: required string column
  6: required string properties_json
  7: required i32 max_num_partitions
  8: required i32 max_num_sub_vectors
  9: required i64 execute_deadline_ms
}

struct TJobSnapshot {
  1: required i64 dataset_version
  2: required string schema_contract_json
  /** manifest or caller */
  3: required string source
}

struct TJobEvidence {
  1: required string proof
  2: required i64 at_ms
}

/** The one send of a job. The invocation's secret is never shown. */
struct TJobDispatch {
  1: required i64 backend_id
  2: required i64 process_epoch
  3: required i64 dispatch_revision
  4: required string invocation_id
  5: required i64 started_at_ms
  6: required i64 deadline_at_ms
  7: required bool slot_held
  8: required string proof
  9: required i64 proof_at_ms
  10: required list<TJobEvidence> evidence
}

struct TJobRefresh {
  1: required TRefreshState state
  2: required i64 attempt
  3: required i64 started_at_ms
  4: required i64 finished_at_ms
  5: required string evidence
  6: optional i64 last_failure_at_ms
  7: optional string last_failure
  /** When a FAILED refresh is tried again at the earliest. */
  8: optional i64 next_retry_at_ms
}

struct TJobResult {
  /** A name of TLanceIndexResultCode, NO_TRUSTED_RESULT, or empty. */
  1: required string code
  2: required string reason
  3: required string message
  4: required bool external_metadata_advanced
  5: required i64 at_ms
}

struct TJobRelease {
  1: required string actor
  2: required i64 at_ms
  3: required string note
  4: required string warning
}

struct TJob {
  1: required i64 job_id
  2: required string creator
  3: required string request_id
  4: required i64 revision
  5: required i64 created_at_ms
  6: required i64 updated_at_ms
  7: required i64 resolved_at_ms
  8: required TJobTarget target
  9: required TJobSpec spec
  10: required TJobSnapshot snapshot
  11: optional TJobDispatch dispatch
  12: required TJobState state
  13: required TJobRefresh refresh
  14: optional TJobResult result
  15: required list<TJobResult> late_results
  16: optional TJobRefresh late_refresh
  17: optional TJobRelease force_release
  18: optional TJobRelease slot_release
  19: required bool fence_held
  20: required bool slot_held
  21: required bool is_open
  22: required i64 quarantined_at_ms
  23: required i64 closed_at_ms
}

/** A snapshot that the caller supplies where the master cannot read the dataset. */
struct TCallerSnapshot {
  1: required i64 dataset_version
  /** Empty for DROP. */
  2: optional string schema_contract_json
  /** The stored spelling of the index, for REPLACE and DROP; default: the name given. */
  3: optional string stored_index_name
}

struct TSubmitRequest {
  1: optional TRequestContext ctx
  /** Makes the submission safe to repeat; 1..1024 bytes. */
  2: optional string request_id
  3: optional string catalog
  4: optional string database_name
  5: optional string table_name
  6: optional string dataset_uri
  7: optional string index_name
  8: optional shared.TLanceIndexMutationType mutation
  9: optional bool if_not_exists
  10: optional bool if_exists
  11: optional string index_type
  12: optional string column
  /**
   * The properties as given, one entry each; a repeated key (in any case) is
   * refused, which is why this is a list and not a map.
   */
  13: optional list<TProperty> properties
  14: optional i64 execute_deadline_ms
  15: optional bool dry_run
  16: optional TCallerSnapshot caller_snapshot
}

struct TProperty {
  1: required string key
  2: required string value
}

enum TSubmitOutcome {
  /** A job was admitted. */
  ADMITTED = 1
  /** This request id has been used with this very body; the job is returned. */
  EXISTING = 2
  /** Nothing to do, no job: the index is as asked for, or is absent already. */
  NOOP = 3
  /** A dry run: the request would be admitted, save what advice says. */
  DRY_RUN = 4
}

struct TSubmitResponse {
  1: required TSubmitOutcome outcome
  /** ADMITTED and EXISTING. */
  2: optional TJob job
  /** NOOP: why there is nothing to do. */
  3: optional string detail
  /** DRY_RUN: the job as it would be admitted (job_id 0). */
  4: optional TJob would_admit
  /** DRY_RUN: what would refuse it now: gate, fence, quotas. Empty: nothing. */
  5: optional list<TAdvice> advice
}

struct TAdvice {
  1: required TAdminErrorCode code
  2: required string message
}

struct TGetJobRequest {
  1: optional TRequestContext ctx
  2: optional i64 job_id
}

struct TListJobsRequest {
  1: optional TRequestContext ctx
  2: optional list<TJobState> states
  3: optional list<TRefreshState> refresh_states
  4: optional bool is_open
  5: optional bool unresolved
  6: optional string catalog
  /** DB.T; needs catalog. */
  7: optional string table
  /** An index name in any spelling. */
  8: optional string index_name
  9: optional i64 backend_id
  /** Created at or after, and before. */
  10: optional i64 since_ms
  11: optional i64 until_ms
  /** 1..1000, default 100. */
  12: optional i32 limit
  /** next_page_token of the page before; paging is stable while jobs come and go. */
  13: optional string page_token
  14: optional string dataset_uri
}

struct TListJobsResponse {
  /** Newest first. */
  1: required list<TJob> jobs
  /** Absent on the last page. */
  2: optional string next_page_token
}

struct TJobHistoryRequest {
  1: optional TRequestContext ctx
  2: optional i64 job_id
}

struct TJobEvent {
  1: required i64 job_id
  2: required i64 revision
  3: required i64 raft_index
  4: required i64 raft_term
  5: required i64 at_ms
  6: required string actor
  7: required string kind
  /** Absent at admission. */
  8: optional TJobState from_state
  9: required TJobState to_state
  10: optional TRefreshState from_refresh
  11: required TRefreshState to_refresh
  12: required string reason
}

struct TJobHistoryResponse {
  /** Oldest first. */
  1: required list<TJobEvent> events
  /** How many events between the first 16 and the last 112 were dropped. */
  2: required i64 dropped
}

/**
 * Waits until the job's revision is above after_revision, or the wait is over;
 * answers with the job as it then is either way.
 */
struct TWaitJobRequest {
  1: optional TRequestContext ctx
  2: optional i64 job_id
  3: optional i64 after_revision
  /** 1..60000, default 30000. */
  4: optional i64 wait_ms
}

// ---- datasets ---------------------------------------------------------------

struct TInspectDatasetRequest {
  1: optional TRequestContext ctx
  2: optional string dataset_uri
  /** Gives the schema contract of this column. */
  3: optional string column
  /** Who holds which name is looked up for this catalog's store, when given. */
  4: optional string catalog
}

struct TDatasetField {
  1: required i32 id
  2: required i32 parent_id
  3: required string name
  4: required string logical_type
  5: required bool nullable
}

struct TDatasetIndex {
  1: required string name
  2: required string index_key
  3: required string index_type
  4: required list<string> columns
  5: required i64 dataset_version
  6: optional string metric
  7: optional i32 num_bits
  8: optional i32 num_sub_vectors
  9: required string uuid
  10: required i64 created_at_ms
}

/** A fence held on an index name of the dataset. */
struct TDatasetFence {
  1: required string index_key
  2: required i64 job_id
  3: required string store
}

struct TInspectDatasetResponse {
  1: required string locator
  2: required i64 version
  3: required list<TDatasetField> fields
  4: required list<TDatasetIndex> indexes
  5: required list<TDatasetFence> fences
  /** The column's stored spelling and contract, where one was asked for. */
  6: optional string column
  7: optional string schema_contract_json
  8: required i64 timestamp_ms
}

// ---- catalogs ---------------------------------------------------------------

struct TStorageOption {
  1: required string key
  /** A literal value; never for a secret. */
  2: optional string value
  /** file:PATH or env:NAME, resolved by each master when it sends. */
  3: optional string ref
}

struct TRefresher {
  /** none, http or doris */
  1: required string kind
  2: optional string url
  3: optional list<string> frontends
  4: optional string user
  5: optional string password_ref
  6: optional string ca_ref
  7: optional bool tls
  8: optional i64 timeout_ms
}

struct TCatalog {
  1: required string name
  /** The explicit store identity; absent: derived from endpoint or scheme. */
  2: optional string store
  3: required list<TStorageOption> options
  4: required TRefresher refresher
  5: required i64 revision
  6: required i64 created_at_ms
  7: required i64 updated_at_ms
  8: required string updated_by
  9: required i64 open_jobs
  10: required i64 unresolved_jobs
}

struct TPutCatalogRequest {
  1: optional TRequestContext ctx
  2: optional string name
  3: optional string store
  4: optional list<TStorageOption> options
  5: optional TRefresher refresher
  /** 0 creates; otherwise the revision this change was made from. */
  6: optional i64 expected_revision
}

struct TGetCatalogRequest {
  1: optional TRequestContext ctx
  2: optional string name
}

struct TListRequest {
  1: optional TRequestContext ctx
}

struct TListCatalogsResponse {
  /** By name. */
  1: required list<TCatalog> catalogs
}

struct TRemoveResponse {
}

// ---- backends ---------------------------------------------------------------

struct TLabel {
  1: required string key
  2: required string value
}

struct TBackend {
  1: required i64 backend_id
  2: required string host
  3: required i32 be_port
  4: required i32 heartbeat_port
  /** active or draining */
  5: required string state
  6: required list<TLabel> labels
  7: required i64 created_at_ms
  8: required i64 updated_at_ms
  9: required string updated_by
  10: required i64 slots_held
  /** What this leader's heartbeats say. */
  11: required bool alive
  12: optional i64 process_epoch
  13: optional i64 last_ok_at_ms
  14: optional string last_error
  15: optional string version
}

struct TAddBackendRequest {
  1: optional TRequestContext ctx
  2: optional string host
  3: optional i32 be_port
  4: optional i32 heartbeat_port
  5: optional list<TLabel> labels
}

struct TBackendRequest {
  1: optional TRequestContext ctx
  2: optional i64 backend_id
}

struct TListBackendsResponse {
  /** By id. */
  1: required list<TBackend> backends
}

// ---- settings ---------------------------------------------------------------

struct TSetting {
  1: required string name
  2: required string value
  3: required string default_value
  /** bool, integer, duration, or the words that a choice allows, as in keep|unknown */
  4: required string type
  5: required string help
  /** Absent where nobody has changed the setting since it came to be. */
  6: optional i64 changed_at_ms
  7: optional string changed_by
}

struct TListSettingsResponse {
  /** By name. */
  1: required list<TSetting> settings
}

struct TSettingValue {
  1: required string name
  2: required string value
}

/** All are changed, or none. */
struct TSetSettingsRequest {
  1: optional TRequestContext ctx
  2: optional list<TSettingValue> values
}

struct TResetSettingsRequest {
  1: optional TRequestContext ctx
  2: optional list<string> names
}

struct TSettingsHistoryRequest {
  1: optional TRequestContext ctx
  /** One setting; absent: all. */
  2: optional string name
  /** 1..1000, default 100. */
  3: optional i32 limit
}

struct TSettingChange {
  1: required i64 raft_index
  2: required i64 at_ms
  3: required string actor
  4: required string name
  5: required string old_value
  6: required string new_value
  7: required bool is_reset
}

struct TSettingsHistoryResponse {
  /** Newest first. */
  1: required list<TSettingChange> changes
}

// ---- operators' verbs -------------------------------------------------------

struct TJobVerbRequest {
  1: optional TRequestContext ctx
  2: optional i64 job_id
  /** Absent: whatever revision the job has when the request is served. */
  3: optional i64 expected_revision
  4: optional string note
}

/** Why a job is where it is, or something that it holds. */
struct TReason {
  /** For programs; the codes are in docs and in internal/explain. */
  1: required string code
  /** For people. */
  2: required string message
  /** What to do about it; absent where nothing needs to be done. */
  3: optional string next_step
}

struct TExplainJobResponse {
  1: required TJob job
  /** What matters most first. */
  2: required list<TReason> reasons
}

/**
 * Waits until there are events after an index of the Raft log, or the wait is
 * over. Of a job with a long history only the first 16 events and the last 112
 * are kept, and a job that is removed takes its events with it: neither are sent,
 * and a gap in a job's revisions is the sign of it.
 */
struct TWatchJobsRequest {
  1: optional TRequestContext ctx
  /** Absent: from now on; the answer comes at once and says from where. */
  2: optional i64 after_index
  /** One job's events only. */
  3: optional i64 job_id
  /**
   * 1..1000, default 100. More come where one entry of the log made more; of one
   * job all that are kept come at once.
   */
  4: optional i32 limit
  /** 1..60000, default 30000. */
  5: optional i64 wait_ms
}

struct TWatchJobsResponse {
  /** In the order of the log; empty when the wait was over. */
  1: required list<TJobEvent> events
  /** The after_index to go on from, at any master. */
  2: required i64 next_index
  /** Of a watch on one job: the job, no newer than the events. */
  3: optional TJob job
}

// ---- the node ---------------------------------------------------------------

struct TStatusResponse {
  1: required string node_id
  2: required string version
  /** Leader, Follower, Candidate or Shutdown */
  3: required string raft_state
  4: required i64 raft_term
  5: required i64 applied_index
  6: required i32 cluster_id
  7: required i64 incarnation
  8: required i32 feature_level
  9: required bool ready
  /** Why not, where ready is false. */
  10: optional string not_ready_reason
  11: optional string leader_id
  12: optional string leader_admin_address
  13: required bool quarantined
  14: required string report_address
  15: required string admin_address
  16: required string http_address
  17: required i64 started_at_ms
  /** Made once with the data directory; a member is known by node id and instance id. */
  18: optional string instance_id
  19: optional string raft_address
  20: optional i64 commit_index
  /** Since this node heard from the leader; 0 on the leader, -1 never. */
  21: optional i64 last_contact_ms
  /** The highest feature level that this build knows. */
  22: optional i32 max_level
  /** Where quarantined is true: what was done, and when. */
  23: optional string quarantine_cause
  24: optional i64 quarantined_at_ms
  /** What a node that has no cluster yet waits for. */
  25: optional string waiting_for
  /** How many voters the Raft configuration has that this node knows. */
  26: optional i32 voters
  27: optional i64 last_snapshot_index
}

// ---- the cluster ------------------------------------------------------------

/** One member as the node that answers knows it; see TClusterStatusResponse. */
struct TClusterMember {
  1: required string node_id
  2: required string instance_id
  /** Its Raft address as registered. */
  3: required string address
  /** The address in the answering node's configuration, where that differs. */
  4: optional string configured_address
  5: required bool voter
  6: required bool leader
  /** The node that answers. */
  7: required bool this_node
  /** It answered the last time it was asked. */
  8: required bool reachable
  /** Since it was heard; 0 of the node itself, -1 never. */
  9: required i64 last_contact_ms
  10: required i64 applied_index
  11: required string version
  12: required i32 level
  13: required i32 max_level
  /** How far its clock is ahead of the answering node's. */
  14: optional i64 clock_offset_ms
  15: required string admin_address
  16: required string report_address
  17: required string http_address
  /** Why it could not be asked. */
  18: optional string last_error
  /** What it is doing, in words: voter, catching up, quarantined, ... */
  19: required string state
}

struct TClusterStatusResponse {
  /** The node that answers: the leader, or with stale the one that is asked. */
  1: required TStatusResponse node
  /** By node id. */
  2: required list<TClusterMember> members
  3: required i32 voters
  /** How many voters must work for the cluster to work. */
  4: required i32 quorum
  /** How many more voters may be lost before it stops. */
  5: required i32 failures_tolerated
  6: required list<string> warnings
}

struct TAddMemberRequest {
  1: optional TRequestContext ctx
  2: optional string node_id
  /** host:port of its Raft service, as every member reaches it. */
  3: optional string address
}

struct TMemberRequest {
  1: optional TRequestContext ctx
  2: optional string node_id
}

/** Another instance takes a member's place, as after a lost disk. */
struct TReplaceMemberRequest {
  1: optional TRequestContext ctx
  2: optional string node_id
  /** Absent: where the member is registered. */
  3: optional string address
}

struct TTransferLeaderRequest {
  1: optional TRequestContext ctx
  /** Absent: the voter whose log is the most complete. */
  2: optional string node_id
}

struct TTransferLeaderResponse {
  1: required string new_leader
}

/** Ends the quarantine that a restore or a recovery began. Refused with INVALID without both confirmations, and
    while a backend answers as the process that a job was sent to before; with TOO_EARLY in the first 10 s, and until
    each backend has answered this leader or failed to. */
struct TReopenClusterRequest {
  1: optional TRequestContext ctx
  2: optional string note
  /** Every master of the older incarnation is stopped. */
  3: optional bool masters_stopped
  /** After that, 10 s later at the earliest, every backend was restarted. */
  4: optional bool backends_restarted
}

struct TReopenClusterResponse {
  /** The leader after it. */
  1: required TStatusResponse node
}

// ---- snapshots --------------------------------------------------------------

struct TSnapshotBeginRequest {
  1: optional TRequestContext ctx
}

/** A snapshot that is kept open for reading under its id, for a bounded time. */
struct TSnapshotInfo {
  1: required string id
  2: required i64 size_bytes
  /** Of the bytes that snapshotRead gives; hexadecimal. */
  3: required string sha256
  4: required i64 raft_index
  5: required i64 raft_term
  6: required i32 cluster_id
  7: required i64 incarnation
  8: required i32 feature_level
  9: required i64 jobs
  10: required i64 created_at_ms
  /** Who made it: a snapshot is read and ended at the node that began it. */
  11: optional string node_id
}

struct TSnapshotReadRequest {
  1: optional TRequestContext ctx
  2: optional string id
  3: optional i64 offset
  /** 1..1048576, default 1048576. */
  4: optional i32 limit
}

struct TSnapshotReadResponse {
  /** Fewer than asked for only at the end; empty past it. */
  1: required binary data
}

struct TSnapshotEndRequest {
  1: optional TRequestContext ctx
  2: optional string id
}

struct TSnapshotEndResponse {
}

// ---- access -----------------------------------------------------------------

/** A token as it is listed; the token itself is shown once, when it is created. */
struct TToken {
  1: required string name
  /** read, submit, operate or admin; each includes the ones before. */
  2: required string role
  3: required i64 created_at_ms
  4: required string created_by
}

struct TCreateTokenRequest {
  1: optional TRequestContext ctx
  2: optional string name
  3: optional string role
}

struct TCreateTokenResponse {
  /** The secret; kept nowhere, and so never shown again. */
  1: required string token
  2: required TToken info
}

struct TListTokensResponse {
  /** By name. */
  1: required list<TToken> tokens
}

struct TRevokeTokenRequest {
  1: optional TRequestContext ctx
  2: optional string name
}

service AdminService {
  TStatusResponse status(1: TListRequest request) throws (1: TAdminError error)

  TSubmitResponse submit(1: TSubmitRequest request) throws (1: TAdminError error)
  TJob getJob(1: TGetJobRequest request) throws (1: TAdminError error)
  TListJobsResponse listJobs(1: TListJobsRequest request) throws (1: TAdminError error)
  TJobHistoryResponse jobHistory(1: TJobHistoryRequest request) throws (1: TAdminError error)
  TJob waitJob(1: TWaitJobRequest request) throws (1: TAdminError error)
  TJob cancelJob(1: TJobVerbRequest request) throws (1: TAdminError error)
  TJob releaseSlot(1: TJobVerbRequest request) throws (1: TAdminError error)
  /**
   * Releases what an UNKNOWN job holds, after the dataset was read and the catalog
   * refreshed where both can be. It may take as long as the refresher does.
   */
  TJob forceReleaseJob(1: TJobVerbRequest request) throws (1: TAdminError error)
  TExplainJobResponse explainJob(1: TGetJobRequest request) throws (1: TAdminError error)
  TWatchJobsResponse watchJobs(1: TWatchJobsRequest request) throws (1: TAdminError error)

  TInspectDatasetResponse inspectDataset(1: TInspectDatasetRequest request) throws (1: TAdminError error)

  TCatalog putCatalog(1: TPutCatalogRequest request) throws (1: TAdminError error)
  TCatalog getCatalog(1: TGetCatalogRequest request) throws (1: TAdminError error)
  TListCatalogsResponse listCatalogs(1: TListRequest request) throws (1: TAdminError error)
  TRemoveResponse removeCatalog(1: TGetCatalogRequest request) throws (1: TAdminError error)

  TBackend addBackend(1: TAddBackendRequest request) throws (1: TAdminError error)
  TListBackendsResponse listBackends(1: TListRequest request) throws (1: TAdminError error)
  TRemoveResponse removeBackend(1: TBackendRequest request) throws (1: TAdminError error)
  TBackend drainBackend(1: TBackendRequest request) throws (1: TAdminError error)
  TBackend undrainBackend(1: TBackendRequest request) throws (1: TAdminError error)

  TListSettingsResponse listSettings(1: TListRequest request) throws (1: TAdminError error)
  TListSettingsResponse setSettings(1: TSetSettingsRequest request) throws (1: TAdminError error)
  TListSettingsResponse resetSettings(1: TResetSettingsRequest request) throws (1: TAdminError error)
  TSettingsHistoryResponse settingsHistory(1: TSettingsHistoryRequest request) throws (1: TAdminError error)

  /** Answered by the leader; with stale by the node itself. */
  TClusterStatusResponse clusterStatus(1: TListRequest request) throws (1: TAdminError error)
  /** The new member is a voter once it has caught up, which it may not have when this answers. */
  TClusterMember addMember(1: TAddMemberRequest request) throws (1: TAdminError error)
  TRemoveResponse removeMember(1: TMemberRequest request) throws (1: TAdminError error)
  TClusterMember replaceMember(1: TReplaceMemberRequest request) throws (1: TAdminError error)
  TTransferLeaderResponse transferLeader(1: TTransferLeaderRequest request) throws (1: TAdminError error)
  TReopenClusterResponse reopenCluster(1: TReopenClusterRequest request) throws (1: TAdminError error)

  /** Of the leader's state; with stale of the node's own. */
  TSnapshotInfo snapshotBegin(1: TSnapshotBeginRequest request) throws (1: TAdminError error)
  TSnapshotReadResponse snapshotRead(1: TSnapshotReadRequest request) throws (1: TAdminError error)
  TSnapshotEndResponse snapshotEnd(1: TSnapshotEndRequest request) throws (1: TAdminError error)

  TCreateTokenResponse createToken(1: TCreateTokenRequest request) throws (1: TAdminError error)
  TListTokensResponse listTokens(1: TListRequest request) throws (1: TAdminError error)
  TRemoveResponse revokeToken(1: TRevokeTokenRequest request) throws (1: TAdminError error)
}
