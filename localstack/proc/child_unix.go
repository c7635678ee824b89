//go:build unix

package proc

import (
	"os"
	"syscall"
)

// childAttributes start a program in a process group of its own.
func childAttributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	return attr
}

// daemonAttributes start a program in a session of its own.
func daemonAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// tree is a process and what it has started: here its process group.
type tree struct{}

func newTree(*os.Process) tree { return tree{} }

// kill kills the group of a process.
func (tree) kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

func (tree) close() {}

// terminate tells a child to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// terminateDaemon tells a program in the background to end.
func terminateDaemon(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
