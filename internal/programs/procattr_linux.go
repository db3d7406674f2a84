package programs

import "syscall"

// endWithParent has the kernel kill a process whose test was itself killed, as after a timeout.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
