/**
 * What the master calls on a backend: the dispatch of one job (default port
 * 9060) and the heartbeat (default port 9050).
 */
namespace go backend

include "shared.thrift"

struct TLanceIndexJobDispatch {
  1: required i64 job_id
  2: required i64 dispatch_revision
  3: required string invocation_id
  /** The backend process this dispatch is for; another process refuses it. */
  4: required i64 be_process_epoch
  /** UTC milliseconds; a backend refuses a dispatch whose deadline has passed. */
  5: required i64 deadline_ms
  6: required shared.TLanceIndexMutationType mutation_type
  /** The display spelling: for REPLACE and DROP the one the dataset stores. */
  7: required string index_name
  8: required string column_name
  9: required string index_type
  10: optional string properties_json
  11: optional bool if_not_exists
  12: optional bool if_exists
  13: required string dataset_uri
  14: required i64 admitted_dataset_version
  15: required string schema_contract_json
  16: optional map<string, string> storage_options
  /** 32 hexadecimal digits; a report echoes them. */
  17: optional string invocation_secret
  18: optional i32 max_num_partitions
  19: optional i32 max_num_sub_vectors
}

/**
 * A non-OK status is a promise that this invocation never runs. OK means
 * accepted: the outcome follows as a report.
 */
service BackendService {
  shared.TStatus submit_lance_index_job(1: TLanceIndexJobDispatch dispatch)
}

struct TMasterInfo {
  /** Where this master's report service listens. */
  1: required shared.TNetworkAddress network_address
  2: required i32 cluster_id
  /** incarnation << 40 | Raft term: grows with every change of the leader. */
  3: required i64 epoch
  4: optional string token
  5: optional string backend_ip
  6: optional i32 http_port
  7: optional i64 heartbeat_flags
  8: optional i64 backend_id
}

struct TBackendInfo {
  1: required i32 be_port
  2: required i32 http_port
  3: optional i32 be_rpc_port
  4: optional i32 brpc_port
  5: optional string version
  /** UTC milliseconds at which this process started: the process epoch. */
  6: optional i64 be_start_time
}

struct THeartbeatResult {
  1: required shared.TStatus status
  2: required TBackendInfo backend_info
}

service HeartbeatService {
  THeartbeatResult heartbeat(1: TMasterInfo master_info)
}
