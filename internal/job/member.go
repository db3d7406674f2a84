package job

import (
	"fmt"
	"strings"
)

// Bounds on the registry of members.
const (
	MaxMembers    = 16
	MaxNodeID     = 64
	MaxInstanceID = 64
)

// register makes a member's record of what a command says about it.
func register(p Position, h Header, m Member) *Member {
	return &Member{
		NodeID: m.NodeID, InstanceID: m.InstanceID, Address: m.Address,
		RegisteredAt: p.Index, AddedAt: h.At, AddedBy: h.Actor,
	}
}

// registry replaces whatever members there are by those of a list, sorted by node
// id, that a formation or a quarantine brings.
func registry(v View, p Position, h Header, list []Member) ([]MemberChange, *Refusal) {
	if len(list) == 0 {
		return nil, invalid("no member was given; a cluster has at least one")
	}
	if len(list) > MaxMembers {
		return nil, tooManyMembers()
	}
	instances, addresses := map[string]bool{}, map[string]bool{}
	for i, m := range list {
		if refusal := checkMember(m.NodeID, m.InstanceID, m.Address); refusal != nil {
			return nil, refusal
		}
		if i > 0 && list[i-1].NodeID >= m.NodeID {
			return nil, invalid("members are given sorted by node id, each once")
		}
		if instances[m.InstanceID] || addresses[m.Address] {
			return nil, invalid("two members have one instance id or one address")
		}
		instances[m.InstanceID], addresses[m.Address] = true, true
	}
	return mergeMembers(v.Members(), p, h, list), nil
}

// mergeMembers makes the changes from one list to another. Both are sorted by node
// id, and so are the changes.
func mergeMembers(old []*Member, p Position, h Header, list []Member) []MemberChange {
	var changes []MemberChange
	for len(old) > 0 || len(list) > 0 {
		switch {
		case len(list) == 0 || len(old) > 0 && old[0].NodeID < list[0].NodeID:
			changes = append(changes, MemberChange{NodeID: old[0].NodeID, Old: old[0]})
			old = old[1:]
		case len(old) == 0 || list[0].NodeID < old[0].NodeID:
			changes = append(changes, MemberChange{NodeID: list[0].NodeID, New: register(p, h, list[0])})
			list = list[1:]
		default:
			changes = append(changes, MemberChange{NodeID: list[0].NodeID, Old: old[0], New: register(p, h, list[0])})
			old, list = old[1:], list[1:]
		}
	}
	return changes
}

// putMember registers a node, changes its address, or puts another instance in its
// place. A node id is a name that an operator can reuse; the instance id is the
// disk behind it. A disk that was wiped comes back under the known name without
// the votes it has given, so another instance is taken in only where the command
// says which one it replaces.
//
// Two members may have one address for a while, since their addresses change one
// at a time: each connection checks who answers.
func putMember(v View, p Position, c PutMember) (Change, *Refusal) {
	if refusal := checkMember(c.NodeID, c.InstanceID, c.Address); refusal != nil {
		return Change{}, refusal
	}
	members := v.Members()
	for _, m := range members {
		if m.InstanceID == c.InstanceID && m.NodeID != c.NodeID {
			return Change{}, refuse(CodeAlreadyExists,
				fmt.Sprintf("member %s was not registered: its instance id is that of member %s", c.NodeID, m.NodeID),
				"a data directory belongs to one node; start this one with an empty data directory")
		}
	}
	old := v.Member(c.NodeID)
	if old == nil {
		if c.Replaces != "" {
			return Change{}, noMember(c.NodeID)
		}
		if len(members) >= MaxMembers {
			return Change{}, tooManyMembers()
		}
		return putMemberChange(nil, register(p, c.Header, c.member())), nil
	}
	if old.InstanceID == c.InstanceID {
		if old.Address == c.Address {
			return Change{Answer: Answer{Member: old, Existing: true}}, nil
		}
		moved := *old
		moved.Address = c.Address
		return putMemberChange(old, &moved), nil
	}
	if c.Replaces != old.InstanceID {
		return Change{}, refuse(CodeInUse,
			fmt.Sprintf("member %s is registered with another instance: this data directory is not the one that it joined with", c.NodeID),
			fmt.Sprintf("if the old one is lost for good, run: lancemaster cluster replace %s; else start the node with it", c.NodeID))
	}
	return putMemberChange(old, register(p, c.Header, c.member())), nil
}

func (c PutMember) member() Member {
	return Member{NodeID: c.NodeID, InstanceID: c.InstanceID, Address: c.Address}
}

func putMemberChange(old, now *Member) Change {
	return Change{
		Members: []MemberChange{{NodeID: now.NodeID, Old: old, New: now}},
		Answer:  Answer{Member: now},
	}
}

// removeMember forgets a member. Its node is refused from then on; to come back it
// joins anew.
func removeMember(v View, c RemoveMember) (Change, *Refusal) {
	old := v.Member(c.NodeID)
	if old == nil {
		return Change{}, noMember(c.NodeID)
	}
	if len(v.Members()) == 1 {
		return Change{}, refuse(CodeInUse, fmt.Sprintf("member %s was not removed: it is the last one", c.NodeID),
			"add another member first")
	}
	return Change{Members: []MemberChange{{NodeID: old.NodeID, Old: old}}, Answer: Answer{Member: old}}, nil
}

func noMember(id string) *Refusal {
	return refuse(CodeNotFound, fmt.Sprintf("there is no member %q", printable(id)), "see: lancemaster cluster status")
}

func tooManyMembers() *Refusal {
	return invalid("a cluster has at most %d members", MaxMembers)
}

// checkMember holds what names a member to forms that mean the same everywhere.
// Signs that separate ids from addresses in lists cannot be in an id.
func checkMember(nodeID, instanceID, address string) *Refusal {
	if !isToken(nodeID, MaxNodeID) || strings.ContainsAny(nodeID, "@=,/") {
		return invalid("a node id must be 1 to %d printable ASCII characters without spaces and without @ = , /", MaxNodeID)
	}
	if !isToken(instanceID, MaxInstanceID) {
		return invalid("an instance id must be 1 to %d printable ASCII characters without spaces", MaxInstanceID)
	}
	// An address with a zone means something else on each master.
	if !isHostPort(address, true) || strings.Contains(address, "%") {
		return invalid("the address of member %s must be host:port, with a DNS name, an IPv4 address or an IPv6 address in brackets", nodeID)
	}
	return nil
}

// isToken accepts a word of printable ASCII.
func isToken(s string, limit int) bool {
	good := s != "" && len(s) <= limit
	for i := range len(s) {
		good = good && s[i] > ' ' && s[i] <= '~'
	}
	return good
}
