//go:build !linux

package app

// freeBytes is not known here: a full disk shows when it is written to.
func freeBytes(string) (bytes uint64, known bool) { return 0, false }
