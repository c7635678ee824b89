//go:build unix

package interpreters

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reap waits for the process, kills its group and unblocks a pending read.
func (c *interpreter) reap() {
	c.wait()
	// Its last output is still read; a process that escaped the group may keep the
	// other end open forever.
	_ = c.answers.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	close(c.ended)
}

// kill kills the process and its group.
func (c *interpreter) kill() {
	c.killing.Lock()
	defer c.killing.Unlock()
	if !c.reaped {
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL)
		_ = c.cmd.Process.Kill()
	}
}

// discard ends the interpreter and removes its resources.
func (c *interpreter) discard() {
	c.once.Do(func() {
		<-c.forked
		if c.running {
			c.kill()
			<-c.ended
			for _, f := range []*os.File{c.requests, c.answers, c.out.file, c.err.file} {
				_ = f.Close()
			}
			c.killing.Lock()
			if c.watch != nil {
				c.watch.close()
			}
			c.killing.Unlock()
			_ = os.RemoveAll(c.scratch)
		}
		c.group.close()
		c.uid.release()
		c.pool.mu.Lock()
		delete(c.pool.all, c)
		c.pool.mu.Unlock()
	})
}

// died ends the interpreter and returns an error that tells how it ended.
func (c *interpreter) died(err error) error {
	exited := !errors.Is(err, errProtocol)
	if exited {
		// Reading failed because it ended or closed its descriptor; wait briefly for
		// the former.
		select {
		case <-c.ended:
		case <-time.After(time.Second):
			exited = false
		}
	}
	c.kill()
	<-c.ended
	if !exited {
		return fmt.Errorf("the interpreter stopped answering: %w", err)
	}
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	signal := syscall.Signal(0)
	switch {
	case status.Signaled():
		signal = status.Signal()
	case c.mode.name == "namespaces" && status.ExitStatus() > 128: // as the first process of the namespace tells it
		signal = syscall.Signal(status.ExitStatus() - 128)
	}
	switch {
	case c.pool.isClosed():
		return ErrClosed
	case signal == syscall.SIGKILL:
		return errors.New("the interpreter died: killed by signal 9 (SIGKILL), by itself or for want of memory")
	case signal != 0:
		return fmt.Errorf("the interpreter died: killed by signal %d (%s)", signal, signalName(signal))
	}
	return fmt.Errorf("the interpreter died: exit status %d", status.ExitStatus())
}

// signalName is a signal's name and what it means.
func signalName(s syscall.Signal) string {
	if name := unix.SignalName(s); name != "" {
		return name + ", " + s.String()
	}
	return s.String()
}
