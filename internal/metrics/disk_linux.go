package metrics

import "golang.org/x/sys/unix"

// fileSystem returns the size of the file system that a path is on, and what of it
// this process may still use, in bytes.
func fileSystem(path string) (size, avail float64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return 0, 0, err
	}
	block := float64(s.Frsize)
	return float64(s.Blocks) * block, float64(s.Bavail) * block, nil
}
