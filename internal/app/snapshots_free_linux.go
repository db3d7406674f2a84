package app

import "golang.org/x/sys/unix"

// freeBytes is what a file system has left for this process, in bytes.
func freeBytes(dir string) (bytes uint64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil || s.Bsize <= 0 {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}
