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
	c.idle, c.rested = true, 0
	c.resting.Unlock()
	c.pool.clock.wake()
}

// tick counts the time with and without a task; false: neither goes on.
func (c *interpreter) tick() bool {
	c.killing.Lock()
	w := c.watch
	c.killing.Unlock()
	if w == nil {
		return false // not ready yet
	}
	working := w.tick()
	if !c.resting.TryLock() {
		return true // it begins or ends its rest now
	}
	defer c.resting.Unlock()
	if !c.idle || c.frozen {
		return working
	}
	if c.rested += tick; c.rested == restAfter {
		go c.freeze()
	}
	return true
}

// freeze stops the interpreter if it still has no task, or ends it if it must
// not have another.
func (c *interpreter) freeze() {
	c.resting.Lock()
	defer c.resting.Unlock()
	if !c.idle || c.rested < restAfter {
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
