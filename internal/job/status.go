package job

import "strconv"

// StatusOK is the status number by which a backend accepts an invocation.
const StatusOK int32 = 0

// statusNames are the status codes this contract knows by name.
var statusNames = map[int32]string{
	StatusOK: "OK", 1: "CANCELLED", 2: "ANALYSIS_ERROR", 3: "NOT_IMPLEMENTED_ERROR", 4: "RUNTIME_ERROR",
	5: "MEM_LIMIT_EXCEEDED", 6: "INTERNAL_ERROR", 7: "THRIFT_RPC_ERROR", 8: "TIMEOUT",
	16: "TOO_MANY_TASKS", 31: "NOT_FOUND", 33: "INVALID_ARGUMENT", 35: "ALREADY_EXIST",
	38: "NOT_AUTHORIZED", 39: "ABORTED", 42: "UNINITIALIZED", 73: "NOT_MASTER",
}

// statusRanges are all the numbers in use where the wire contract comes from, ends included.
var statusRanges = [][2]int32{{0, 8}, {11, 22}, {30, 46}, {50, 57}, {60, 64}, {70, 73}, {100, 100}}

// KnownStatus names a status number of a backend's answer, and reports whether it is one in use. An
// answer with a known number other than StatusOK is a complete refusal: the invocation never runs.
// An unknown number says nothing: the backend may be of a kind whose promises are not ours.
func KnownStatus(number int32) (name string, known bool) {
	for _, r := range statusRanges {
		if number >= r[0] && number <= r[1] {
			known = true
			break
		}
	}
	if name, ok := statusNames[number]; ok {
		return name, known
	}
	return "STATUS_" + strconv.Itoa(int(number)), known
}
