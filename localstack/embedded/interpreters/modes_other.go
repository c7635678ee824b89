//go:build unix && !linux

package interpreters

import (
	"os"
	"syscall"
)

// modes returns the isolation modes, the strictest first.
func modes() []mode {
	return []mode{{name: "plain", ownUser: os.Geteuid() == 0}}
}

// attributes returns the attributes for forking the child in its mode.
func (c *interpreter) attributes(mode) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// wait reaps the process when it has ended, and kills the rest of its group.
func (c *interpreter) wait() {
	_ = c.cmd.Wait() // only the state matters
	c.killing.Lock()
	defer c.killing.Unlock()
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
	c.reaped = true
}

// endUser does nothing, because processes in other sessions can only be found
// on Linux.
func endUser(int) {}

// Undumpable does nothing: by default, only Linux lets processes of one user
// read each other.
func Undumpable() error { return nil }
