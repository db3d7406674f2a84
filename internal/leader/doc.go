// Package leader runs the services that only the leader may run, one term at a time.
//
// # One term
//
//	gain ──> barrier ──> still this term? ──> term start ──> services, in order ──> ready
//	                                                                                 │
//	loss, another term, or Stop <────────────────────────────────────────────────────┘
//	  └──> not ready ──> services stopped, in reverse order, each waited for ──> next term
//
// Everything of one term happens on one goroutine, from the barrier to the end of the last service,
// and the next term is not looked at before. So two terms never overlap, and no late start can tear
// down or publish anything in a newer term. A second goroutine, which lives as long as the term's
// work, only watches for the end of the term: it withdraws readiness and ends the term's context, and
// the first one does the rest.
//
// Ready compares with the node at the moment of the call, and so is never late to say no.
//
// A node wins a term at most once. Another term than the one being led therefore means that this one
// was lost, even when the node seems to have led all the time.
//
// # When a start fails
//
// What was started is stopped, and the node hands its leadership to another member (Config.StepDown).
// Where it cannot, as when it is alone, it tries again, each time after a longer pause, while the
// term lasts. After Config.MaxFailures in a row it gives up and calls Config.Fatal: a leader that does
// nothing is worse than none. So is one whose service neither starts nor stops; both are bounded.
//
// # Contexts
//
// A service's context ends when its term is lost, or its start has failed. A term that ends because
// the manager is stopped still belongs to this node: its context stays alive until every service
// has stopped, so that each may journal what it must.
package leader
