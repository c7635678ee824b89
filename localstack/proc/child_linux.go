package proc

import "syscall"

// dieWithParent makes the kernel kill the child when this process dies for any
// reason.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
