//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package app

import "os"

// takeLock leaves it, where there is no flock, to the locks that the state file and the Raft log have.
func takeLock(*os.File) error { return nil }
