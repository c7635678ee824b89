package proc

import "syscall"

// dieWithParent has the kernel kill the child when this process dies, however
// it dies.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
