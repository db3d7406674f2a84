// Package cluster makes masters one cluster: it forms it, knows what the other masters say of
// themselves, and changes who belongs to it.
//
// # Formation
//
// A member list counts only on an empty disk. Every founding member asks all others, over
// identified connections, and goes on only when each is reachable, empty, and has the very same
// list. The member with the smallest id then chooses the cluster's id, tells it to each of the
// others together with every founder's instance id, and writes the first member list to its log
// when all have stored that:
//
//	empty ──all reachable, all empty, same list──▶ planned ──all have stored the plan──▶ formed
//	  ▲                                              │
//	  └──────────── somebody is not as planned ──────┘
//
// Only that one disk ever writes a first member list, so two clusters cannot come of one list. A
// plan that was not carried out holds nobody: until a member has a Raft log or a vote on disk, the
// next plan replaces it.
//
// # Who belongs
//
// A member is a node id together with the instance id of its disk, registered in the replicated
// state. An empty disk under a known id has another instance id and is refused until an operator
// replaces the member: its log and the votes it gave are gone, and a member that forgets its votes
// can elect two leaders for one term. Members that join later do so with an empty disk and wait;
// they vote once they have caught up.
//
// # Clocks
//
// The masters tell each other their wall clocks. What a master trusts about times that another
// one journaled depends on a majority agreeing with it within a minute; see AgreesWithMajority.
package cluster
