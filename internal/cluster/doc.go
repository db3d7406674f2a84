// Package cluster makes masters one cluster: it forms it, knows what the other masters say of
// themselves, and changes who belongs to it.
//
// # Formation
//
// A member list counts only on an empty disk. Every founding member asks all others, over
// identified connections, and agrees only when each is reachable, empty, and has the very same
// list. The member with the smallest id, the coordinator, then chooses the cluster's id, tells it to
// each of the others together with every founder's instance id, and writes the first member list to
// its log when all have stored that:
//
//	empty ──all reachable, all empty, same list──▶ planned ──all have stored the plan──▶ formed
//	  ▲                                              │
//	  └──────────── somebody is not as planned ──────┘
//
// Only that one disk ever writes a first member list, so two clusters cannot come of one list. A
// plan that was not carried out holds nobody: until a member has a Raft log or a vote on disk, the
// next plan replaces it. So that this works between founders that hold different plans, the
// coordinator's own plan counts only when its disk holds the first member list; it says until then
// that it belongs to no cluster. A crash between any two steps leads back to one of the three states.
//
// What is not known counts as not empty: a node answers nobody before it has looked at its disk, and
// says that its disk is not empty while Raft starts or has stopped.
//
// # Who belongs
//
// A member is a node id together with the instance id of its disk, registered in the replicated
// state. An empty disk under a known id has another instance id and is refused until an operator
// replaces the member: its log and the votes it gave are gone, and a member that forgets its votes
// can elect two leaders for one term. So the old disk leaves the Raft configuration before the new
// one is registered.
//
// Members that join later do so with an empty disk and wait. They are registered, told who belongs
// (the invitation), and added to the Raft configuration, in this order; each step may be repeated. An
// invitation is true as of the registration in it: until the node's own state has got there, the
// invitation says who is a member, so that a disk that was replaced before cannot come in through a
// node that has nothing yet. The leader's Tender gives a member its vote once it follows this leader,
// has applied its own registration, and lacks at most the newest entries.
//
// # Changes
//
// A leader makes one change at a time, each with a bound, and never below a working quorum: who is
// live is asked when the change is made. The leader itself leaves by handing over, and its successor
// removes it. The leadership goes to a live member that is not stopping itself, not to whichever log
// is longest.
//
// An address that leads a machine to itself is neither taken for another member nor recorded. What a
// name resolves to on this machine is evidence about others only, never about this node: many
// machines map their own name to a loopback address.
//
// # Clocks
//
// The masters tell each other their wall clocks. What a master trusts about times that another
// one journaled depends on a majority of the voters agreeing with it within a minute; see
// AgreesWithMajority.
package cluster
