package peer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Identity is what a node says of itself at the begin of a connection.
type Identity struct {
	ClusterID   int32  `json:"cluster_id"`  // 0: belongs to no cluster yet
	Incarnation int64  `json:"incarnation"` // of the cluster, as this node knows it; 0: unknown
	NodeID      string `json:"node_id"`
	InstanceID  string `json:"instance_id"` // of the node's disk; another disk has another
	// RegisteredAt is the Raft index at which the node knows itself to be registered; 0: not yet.
	RegisteredAt uint64 `json:"registered_at"`
	Level        int32  `json:"level"`     // feature level of its cluster
	MaxLevel     int32  `json:"max_level"` // newest feature level that its build can read
	Version      string `json:"version"`   // of its build, for people
}

// maxName bounds each of an identity's texts, in bytes.
const maxName = 256

// check refuses an identity that no node of ours would send.
func (i Identity) check() error {
	for _, text := range []struct{ name, value string }{
		{"node id", i.NodeID}, {"instance id", i.InstanceID}, {"version", i.Version},
	} {
		if len(text.value) > maxName || !utf8.ValidString(text.value) || strings.ContainsFunc(text.value, unicode.IsControl) {
			return fmt.Errorf("its %s is longer than %d bytes or not plain text", text.name, maxName)
		}
	}
	if i.NodeID == "" || i.InstanceID == "" {
		return fmt.Errorf("it does not say its node id (%q) or its instance id (%q)", i.NodeID, i.InstanceID)
	}
	return nil
}

// Kind is what a connection is for.
type Kind string

// The kinds of connections.
const (
	KindRaft Kind = "raft" // between members only
	KindCall Kind = "call" // also for strangers, with the handlers that allow them
)

// Code says why a connection or a call was refused. Codes travel: one that a later version adds may
// arrive here.
type Code string

// The codes of refusals.
const (
	CodeNotFormed           Code = "NOT_FORMED"           // one side belongs to no cluster yet
	CodeOtherCluster        Code = "OTHER_CLUSTER"        //
	CodeOldIncarnation      Code = "OLD_INCARNATION"      // the other side is of before a restore
	CodeNewIncarnation      Code = "NEW_INCARNATION"      // this side is of before a restore
	CodeDuplicateNode       Code = "DUPLICATE_NODE"       // two disks under one node id
	CodeUnknownMember       Code = "UNKNOWN_MEMBER"       // never registered, or removed
	CodeOtherInstance       Code = "OTHER_INSTANCE"       // not the disk that is registered
	CodeUnsupportedLevel    Code = "UNSUPPORTED_LEVEL"    // this side cannot read what the other writes
	CodeWrongNode           Code = "WRONG_NODE"           // the address leads to another node than meant
	CodeWrongCertificate    Code = "WRONG_CERTIFICATE"    // it names another node, or has expired
	CodeUnsupportedProtocol Code = "UNSUPPORTED_PROTOCOL" // another version of this package's protocol
	CodeMembersOnly         Code = "MEMBERS_ONLY"         // the method or kind is not for strangers
	CodeUnknownMethod       Code = "UNKNOWN_METHOD"       //
	CodeFull                Code = "FULL"                 // too many connections
	CodeStarting            Code = "STARTING"             // for Judge: it cannot tell yet
	CodeStopping            Code = "STOPPING"             //
	CodeRefused             Code = "REFUSED"              // Judge's error was no *Refusal
)

// codes is every code that this version knows.
var codes = []Code{
	CodeNotFormed, CodeOtherCluster, CodeOldIncarnation, CodeNewIncarnation, CodeDuplicateNode,
	CodeUnknownMember, CodeOtherInstance, CodeUnsupportedLevel, CodeWrongNode, CodeWrongCertificate, CodeUnsupportedProtocol,
	CodeMembersOnly, CodeUnknownMethod, CodeFull, CodeStarting, CodeStopping, CodeRefused,
}

// Refusal says that one of the two sides refused a connection or, before it was begun, a call. It is
// certain then that no handler ran.
type Refusal struct {
	Code Code `json:"code"`
	// Message says what was refused, why, and what to do next, to the operator of either side.
	Message string `json:"message"`
	// ByOther is true when the other side refused, false when this one did.
	ByOther bool `json:"-"`
}

func (r *Refusal) Error() string {
	if r.ByOther {
		return "refused by the other side: " + r.Message
	}
	return r.Message
}

// Stranger says whether the refusal means no more than that the other side is not a member here, or
// this side not there: it may then still call what strangers may.
func (r *Refusal) Stranger() bool {
	switch r.Code {
	case CodeNotFormed, CodeUnknownMember, CodeOtherInstance:
		return true
	default:
		return false
	}
}

// Passing says whether a refusal ends by itself, as nodes start, stop and form their cluster.
func (r *Refusal) Passing() bool {
	switch r.Code {
	case CodeStarting, CodeStopping, CodeNotFormed, CodeFull:
		return true
	default:
		return false
	}
}

func refuse(code Code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Registry looks up a member: the instance that is registered under a node id, and the Raft index at
// which it was.
type Registry func(nodeID string) (instanceID string, registeredAt uint64, ok bool)

// Check says whether other is a member of self's cluster, given the members that self knows from
// what it has applied: everything up to appliedIndex. It returns nil for a member, and the reason
// otherwise; see Decide for what a stranger may do nonetheless.
//
// A node that lags must not refuse a member that was registered meanwhile: it could then never catch
// up. So a registration beyond appliedIndex is believed.
func Check(self Identity, known Registry, appliedIndex uint64, other Identity) *Refusal {
	// First what holds for strangers too.
	if other.NodeID == self.NodeID && other.InstanceID != self.InstanceID {
		return refuse(CodeDuplicateNode, "two nodes call themselves %s, with different disks; give one of them another node_id,"+
			" or another address if it was reached in place of a third", self.NodeID)
	}
	if self.ClusterID != 0 && other.ClusterID != 0 && self.ClusterID != other.ClusterID {
		return refuse(CodeOtherCluster, "node %s belongs to cluster %d, node %s to cluster %d;"+
			" correct the addresses in cluster.members, or empty the data directory of the node that is to change its cluster",
			other.NodeID, other.ClusterID, self.NodeID, self.ClusterID)
	}
	if other.Level > self.MaxLevel {
		return refuse(CodeUnsupportedLevel, "node %s uses feature level %d (version %s), node %s reads up to %d (version %s); upgrade %s",
			other.NodeID, other.Level, other.Version, self.NodeID, self.MaxLevel, self.Version, self.NodeID)
	}
	// Then what makes a stranger.
	if self.ClusterID == 0 || other.ClusterID == 0 || self.Incarnation == 0 || other.Incarnation == 0 {
		unformed := self
		if other.ClusterID == 0 || other.Incarnation == 0 {
			unformed = other
		}
		return refuse(CodeNotFormed, "node %s belongs to no cluster yet; wait until the cluster is formed, or let it join with cluster add", unformed.NodeID)
	}
	if r := checkIncarnation(self, other); r != nil {
		return r
	}
	return checkRegistered(self, known, appliedIndex, other)
}

// checkIncarnation refuses a node of before a restore, whichever side it is on.
func checkIncarnation(self, other Identity) *Refusal {
	if self.Incarnation == other.Incarnation {
		return nil
	}
	older, newer, code := self, other, CodeNewIncarnation
	if other.Incarnation < self.Incarnation {
		older, newer, code = other, self, CodeOldIncarnation
	}
	return refuse(code, "cluster %d was restored: node %s knows incarnation %d, node %s still has %d;"+
		" stop %s, empty its data directory and let it join again",
		self.ClusterID, newer.NodeID, newer.Incarnation, older.NodeID, older.Incarnation, older.NodeID)
}

// checkRegistered looks the other node up among the members.
func checkRegistered(self Identity, known Registry, appliedIndex uint64, other Identity) *Refusal {
	instance, _, ok := known(other.NodeID)
	switch {
	case ok && instance == other.InstanceID:
		return nil
	case other.RegisteredAt > appliedIndex:
		return nil
	case !ok:
		return refuse(CodeUnknownMember, "node %s is not a member of cluster %d as node %s knows it: it was never added, or was removed;"+
			" to add it, empty its data directory, start it with cluster.join and run `lancemaster cluster add`",
			other.NodeID, self.ClusterID, self.NodeID)
	default:
		return refuse(CodeOtherInstance, "node %s answers with another disk than the registered one;"+
			" if its disk was replaced, run `lancemaster cluster replace %s`", other.NodeID, other.NodeID)
	}
}

// Decide turns Check's answer into that of Config.Judge: a stranger is let in for calls.
func Decide(kind Kind, refusal *Refusal) (member bool, err error) {
	switch {
	case refusal == nil:
		return true, nil
	case kind == KindCall && refusal.Stranger():
		return false, nil
	default:
		return false, refusal
	}
}
