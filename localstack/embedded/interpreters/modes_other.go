//go:build unix && !linux

package interpreters

import (
	"os"
	"syscall"
)

// modes returns the ways to confine a child, the strictest first.
func modes() []mode {
	return []mode{{name: "plain", ownUser: os.Geteuid() == 0}}
}

// attributes returns how the child is forked in its mode.
func (c *interpreter) attributes(mode) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// wait reaps the process when it has ended and kills what is left of its group.
func (c *interpreter) wait() {
	_ = c.cmd.Wait() // what counts is the state
	c.killing.Lock()
	defer c.killing.Unlock()
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	c.reaped = true
}

// endUser does nothing: what a task starts in a session of its own is found on
// Linux only.
func endUser(int) {}

// Undumpable does nothing: only Linux lets processes of one user read each other
// by default.
func Undumpable() error { return nil }
