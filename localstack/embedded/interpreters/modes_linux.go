package interpreters

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// modes returns the isolation modes, the strictest first.
func modes() []mode {
	if os.Geteuid() == 0 {
		return []mode{{name: "namespaces", ownUser: true}, {name: "plain", ownUser: true}}
	}
	return []mode{{name: "namespaces", userNamespace: true}, {name: "plain"}}
}

// attributes returns the attributes for forking the child in its mode.
func (c *interpreter) attributes(m mode) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if m.name == "namespaces" {
		attr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
		if c.pool.config.Network == NoNetwork {
			attr.Cloneflags |= syscall.CLONE_NEWNET
		}
	}
	c.group.enter(attr)
	if m.userNamespace {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attr
}

// wait reaps the process when it has ended, and kills the rest of its group. It
// does so before reaping: until then the ids of the process and its group are
// not reused.
func (c *interpreter) wait() {
	pid := c.cmd.Process.Pid
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.killing.Lock()
	defer c.killing.Unlock()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	_ = c.cmd.Wait() // only the state matters
	c.reaped = true
	if c.mode.plainUser() {
		endUser(c.uid.id)
	}
}

// Undumpable prevents other processes of the same user from reading this
// process's memory and environment, and the kernel from writing core dumps of
// it. The server calls it once, before any task runs.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_DUMPABLE: %w", err)
	}
	return nil
}
