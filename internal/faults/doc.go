// Package faults runs clusters of the real programs under faults: masters are killed and stopped at
// random moments under load, their disks fill, fail and hang, their addresses change, their builds are
// upgraded one by one, their network is cut. Its files carry the build tag faults; `make faults` builds
// the programs and runs a short mix, `make soak` a long one, `make faults-net` the partitions, which
// want root, and `make bench-failover` measures.
//
// A cluster here is three masters on loopback addresses of its own, two scripted backends, and clients
// that submit, read and release all the while. After each run one oracle judges it, in
// internal/oracle, and the state files of all nodes are opened and compared. docs/testing.md says what
// is covered.
//
// A run prints its seed, and SEED=n repeats its random choices: who is hit when, and what clients and
// backends do. The processes are scheduled by the kernel, so that the same seed does not bring the same
// interleaving; a fault that was found once may take several runs of its seed.
//
// LANCEMASTER_BIN names the directory of the programs, with the build of the next level in its
// directory nextlevel. LANCEMASTER_FAULTS_SEED is the seed, LANCEMASTER_FAULTS_TIME how long each random
// mix goes on, LANCEMASTER_FAULTS_RUNS how often the benchmark kills a leader.
package faults
