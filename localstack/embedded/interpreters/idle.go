//go:build unix

package interpreters

import (
	"syscall"
	"time"
)

// restAfter is how long an interpreter waits for its next task before it is
// stopped: until then it goes on without a delay.
const restAfter = 100 * time.Millisecond

// rest begins the time in which the interpreter has no task. After restAfter it
// is stopped: whatever a task left behind in it, and whatever pretends to wait
// while it runs on, gets no time outside of a task.
func (c *interpreter) rest() {
	c.resting.Lock()
	defer c.resting.Unlock()
	c.idle = true
	if c.restTimer == nil {
		c.restTimer = time.AfterFunc(restAfter, c.freeze)
		return
	}
	c.restTimer.Reset(restAfter)
}

// freeze stops the interpreter if it still has no task, or ends it if it must
// not have another.
func (c *interpreter) freeze() {
	c.resting.Lock()
	defer c.resting.Unlock()
	if !c.idle {
		return
	}
	c.stop(syscall.SIGSTOP) //guard:sandbox/stopped drop
	c.frozen = true
	if !c.watch.settled() {
		c.unfit = true
		if c.pool.forget(c) {
			go c.discard()
		}
	}
}

// stop sends a signal that stops the interpreter or has it go on; false: it has ended.
func (c *interpreter) stop(signal syscall.Signal) bool {
	c.killing.Lock()
	defer c.killing.Unlock()
	return !c.reaped && syscall.Kill(-c.cmd.Process.Pid, signal) == nil
}

// wake ends the time without a task. False: the interpreter has ended, or wrote
// something since its last answer, and must not run another.
func (c *interpreter) wake() bool {
	c.resting.Lock()
	defer c.resting.Unlock()
	c.idle = false
	c.restTimer.Stop()
	quiet := false
	_ = c.waiting.Read(func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), make([]byte, 1))
		quiet = err == syscall.EAGAIN
		return true
	})
	if !quiet || c.unfit || c.frozen && !c.stop(syscall.SIGCONT) {
		return false
	}
	c.frozen = false
	return true
}
