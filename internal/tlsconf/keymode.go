package tlsconf

import (
	"io/fs"
	"os"
)

// keyMode is who may read a key file.
type keyMode struct {
	mode       fs.FileMode
	ofRoot     bool // root owns it, so that it can only be given to us through its group
	ofOwnGroup bool // its group is one of this process's
}

// openToOthers reports whether others than who runs this process, and root, may read the key, or more than
// read it. A key that root owns and has given to a group of this process's, as Kubernetes does with fsGroup,
// is as closed as one of its own with mode 0600; who else is in that group is root's word.
func (k keyMode) openToOthers() bool {
	allowed := fs.FileMode(0o700)
	if k.ofRoot && k.ofOwnGroup {
		allowed = 0o740
	}
	return k.mode&^allowed != 0
}

// lookAtKey returns nothing of a file that is gone: whoever reads it says so.
func lookAtKey(path string) keyMode {
	info, err := os.Stat(path)
	if err != nil {
		return keyMode{}
	}
	k := keyMode{mode: info.Mode().Perm()}
	k.ofRoot, k.ofOwnGroup = owners(info)
	return k
}
