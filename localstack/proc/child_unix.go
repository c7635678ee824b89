//go:build unix

package proc

import (
	"os"
	"syscall"
)

// childAttributes start a program in its own process group.
func childAttributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(attr)
	return attr
}

// daemonAttributes start a program in its own session.
func daemonAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// tree is a process and its descendants: here its process group.
type tree struct{}

func newTree(*os.Process) tree { return tree{} }

// kill kills the group of a process.
func (tree) kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

func (tree) close() {}

// terminate asks a child to end.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// terminateDaemon asks a background program to end.
func terminateDaemon(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
