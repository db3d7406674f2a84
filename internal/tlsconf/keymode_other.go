//go:build !unix

package tlsconf

import "io/fs"

func owners(fs.FileInfo) (ofRoot, ofOwnGroup bool) { return false, false }
