//go:build unix

package interpreters

import (
	"syscall"
	"time"
)

// restAfter is how long an idle interpreter runs before it is stopped. Until
// then its next task starts without delay.
const restAfter = 100 * time.Millisecond

// rest begins the time without a task. After restAfter the interpreter is
// stopped, so that code left behind by a task gets no processor time outside of
// a task.
func (c *interpreter) rest() {
	c.resting.Lock()
	c.idle, c.rested = true, 0
	c.resting.Unlock()
	c.pool.clock.wake()
}

// tick advances the time with or without a task. It returns false if the
// interpreter needs no further ticks.
func (c *interpreter) tick() bool {
	c.killing.Lock()
	w := c.watch
	c.killing.Unlock()
	if w == nil {
		return false // not ready yet
	}
	working := w.tick()
	if !c.resting.TryLock() {
		return true // a task or a rest is just beginning or ending
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

// freeze stops the interpreter if it still has no task, or kills it if it must
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

// stop sends a signal that stops or continues the interpreter. It returns false
// if the interpreter has ended.
func (c *interpreter) stop(signal syscall.Signal) bool {
	c.killing.Lock()
	defer c.killing.Unlock()
	return !c.reaped && syscall.Kill(-c.cmd.Process.Pid, signal) == nil
}

// wake ends the time without a task. It returns false if the interpreter has
// ended, or has written something since its last answer and must not run
// another task.
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
