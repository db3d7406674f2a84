// Package admission turns a caller's request into an Admit command: it checks
// the request, reads the dataset once, and answers at once what needs no job.
//
// # Order
//
// The cheapest check comes first and the first failure answers: a known request
// id, the gate, the index name, type and properties, the locator, the catalog,
// the dataset, the limits, and then the journal. A refusal leaves nothing
// behind. The checks that other submissions can invalidate (gate, fence, quotas,
// the catalog's store) are made again inside the replicated state machine; here
// they only spare a dataset read.
//
// A dry run makes every check but journals nothing. What the state of the
// cluster would refuse now (gate, fence, quotas) is advice, because it may be
// different by the time the job is submitted.
//
// # The snapshot
//
// One manifest read gives version, column and indexes, so a job's schema
// contract and its version belong together. Where the master cannot read the
// dataset the caller supplies both, and vouches for them.
package admission
