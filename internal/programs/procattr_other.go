//go:build !linux

package programs

import "syscall"

// endWithParent is what only Linux can do.
func endWithParent() *syscall.SysProcAttr { return nil }
