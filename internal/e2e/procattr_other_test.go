//go:build e2e && !linux

package e2e

import "syscall"

// endWithParent is what only Linux can do.
func endWithParent() *syscall.SysProcAttr { return nil }
