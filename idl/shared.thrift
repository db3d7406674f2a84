/**
 * Structs and enums that more than one boundary uses. The numbers are those of
 * the wire contract between an Apache Doris frontend and its backends for Lance
 * index jobs, so that a backend written for that contract works here.
 *
 * Numbers are never reused and never change.
 */
namespace go shared

/**
 * The status codes this contract knows by name. The origin also uses other
 * numbers; docs/backend-authors.md lists which of them count as a complete
 * refusal. A number outside that list is treated as ambiguous.
 */
enum TStatusCode {
  OK = 0
  CANCELLED = 1
  ANALYSIS_ERROR = 2
  NOT_IMPLEMENTED_ERROR = 3
  RUNTIME_ERROR = 4
  MEM_LIMIT_EXCEEDED = 5
  INTERNAL_ERROR = 6
  THRIFT_RPC_ERROR = 7
  TIMEOUT = 8
  TOO_MANY_TASKS = 16
  NOT_FOUND = 31
  INVALID_ARGUMENT = 33
  ALREADY_EXIST = 35
  NOT_AUTHORIZED = 38
  ABORTED = 39
  UNINITIALIZED = 42
  NOT_MASTER = 73
}

struct TStatus {
  1: required TStatusCode status_code
  2: optional list<string> error_msgs
}

struct TNetworkAddress {
  1: required string hostname
  2: required i32 port
}

/** What an index job does to the dataset. */
enum TLanceIndexMutationType {
  CREATE = 1
  REPLACE = 2
  DROP = 3
}

/** The typed outcome of one invocation. Message text is never read. */
enum TLanceIndexResultCode {
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
}

/** How an invocation completed. The master derives its own; this one is ignored. */
enum TLanceIndexCompletionReason {
  NONE = 1
  IF_CONDITION_NOOP = 2
}

/** Why the worker of an invocation can no longer touch the dataset. */
enum TLanceIndexTerminationProof {
  NONE = 1
  CHILD_REAPED = 2
  NEVER_LAUNCHED = 3
}
