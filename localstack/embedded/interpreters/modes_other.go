//go:build unix && !linux

package interpreters

import (
	"os"
	"syscall"
)

// modes returns the ways to confine a child, the strictest first.
func modes() []mode {
	if os.Geteuid() == 0 {
		id := nobody
		return []mode{{name: "plain", uid: &id}}
	}
	return []mode{{name: "plain"}}
}

// attributes returns how a child of the mode is forked.
func (m mode) attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// wait reaps the process when it has ended and kills what is left of its group.
func (c *interpreter) wait() {
	_ = c.cmd.Wait() // what counts is the state
	c.killing.Lock()
	defer c.killing.Unlock()
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	c.reaped = true
}

// Undumpable does nothing: only Linux lets processes of one user read each other
// by default.
func Undumpable() error { return nil }
