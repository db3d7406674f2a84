// Package testcluster runs real masters, all of app, and scripted backends inside one process, on a
// network in memory that can be cut and slowed in each direction, with clocks that are set at will.
//
// It is made for testing/synctest: inside a bubble time is virtual, so that an hour of leases, elections
// and retries takes a second, and a run is over when it is. Nothing here waits on anything but channels
// and timers. Files are real, on a file system in memory where there is one: while a goroutine is in a
// system call time stands still, so a write takes none.
//
// A crash copies a master's directory at a moment when nothing is being written, which is every moment
// at which time passes, takes the master off the network, and opens another on the copy: what the disk
// held is all that is left. Since messages take time, those moments lie between any two steps of
// replication, and between a step and its answer.
//
// The schedule of faults and of load follows from a seed alone. How goroutines interleave within one
// moment does not, nor do Raft's random timeouts, so a seed repeats what is done to the cluster and
// most of what the cluster does, not every step of it.
package testcluster
