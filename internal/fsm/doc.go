// Package fsm is the replicated state machine: it decodes committed log entries,
// asks package job what each one does, writes that to the state file, and answers
// reads.
//
// # What it promises
//
//   - One state-file transaction per applied batch, with the position it reaches
//     inside. After a crash the state is that of some position, whole; entries at
//     or below it are skipped when Raft replays them.
//   - A refused command changes nothing and does not undo its neighbours: its Change
//     is computed before anything is written, so there is nothing to roll back.
//     Where a batch ends never shows in the state.
//   - Readers see only what is committed to the state file, and never wait for the
//     disk.
//   - What cannot be decoded, and a state file that cannot be written, end in Fatal.
//     Nothing is applied after that: the next command could rest on one that this
//     node has not understood.
//
// # Two copies in memory
//
// Commands of one batch must see each other's effect, and readers must not see it
// before it is on disk. Holding the readers' lock across the disk's sync would make
// every reader, the dispatcher among them, as slow as the disk. So there are two
// job.Live: ahead, which only the applying goroutine touches and which follows
// each command at once, and live, which readers see and which follows when the
// transaction has been committed. The records are shared, being immutable; what
// is held twice are the indexes over open jobs.
//
// # Snapshots
//
// Snapshot begins a read transaction, which bbolt keeps consistent while later
// batches are applied, and Persist streams it. Restore receives into a new file,
// makes it durable, opens and checks it, and only then swaps; until then, and
// whenever the snapshot is refused, the old state serves on.
//
// # At start
//
// Raft must not restore a snapshot by itself (NoSnapshotRestoreOnStart): the state
// file as a rule is newer. Prepare compares the file's position with the log and
// the newest snapshot, restores the snapshot where the file is older, and refuses
// where they contradict each other.
package fsm
