//go:build unix

package tlsconf

import (
	"io/fs"
	"os"
	"slices"
	"syscall"
)

func owners(info fs.FileInfo) (ofRoot, ofOwnGroup bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false, false
	}
	own, _ := os.Getgroups() // without them there is the effective one
	return s.Uid == 0, slices.Contains(append(own, os.Getegid()), int(s.Gid))
}
