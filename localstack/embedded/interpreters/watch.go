//go:build unix

package interpreters

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"millrace/shared/run/sandbox"
)

// Limits of an interpreter and all processes it starts, besides memory.
const (
	maxProcesses = 512
	maxFiles     = 100_000 // in its scratch directory
)

// How often a task is measured: often enough that memory, growing as fast as a
// machine provides it, does not exceed the limit by much, but never using more
// than a twentieth of a processor.
const (
	growth       = 4 << 30 // bytes/s
	longest      = 200 * time.Millisecond
	scratchEvery = 200 * time.Millisecond
	lookingShare = 20
)

// usage is what an interpreter and all its processes hold.
type usage struct {
	memory    int64 // bytes, resident or swapped out
	processes int
	scratch   int64 // bytes on disk
	files     int
}

// watch bounds what an interpreter holds by measuring it while it has a task.
// Measurements are spaced by the total time with a task, so that short tasks
// share them.
type watch struct {
	c *interpreter

	mu      sync.Mutex
	busy    bool             // it has a task
	worked  bool             // it had a task since the last tick
	looking bool             // a measurement is in progress
	left    time.Duration    // time with a task until the next measurement
	excess  *sandbox.Failure // the exceeded limit; the interpreter is dead then

	looks      sync.Mutex // serializes measurements
	tree       *tree      // nil once closed
	scratch    scratch
	device     uint64    // of the scratch directory
	scratchDue time.Time // next measurement of the scratch directory
	last       usage
}

func (c *interpreter) newWatch(m mode) (*watch, error) {
	w := &watch{c: c, scratch: scratch{dir: c.scratch}, device: deviceOf(c.scratch)}
	var err error
	if w.tree, err = newTree(c.cmd.Process.Pid, m, c.uid.value()); err != nil {
		return nil, err
	}
	return w, nil
}

// begin starts the time with a task.
func (w *watch) begin() {
	w.mu.Lock()
	w.busy, w.worked = true, true
	w.mu.Unlock()
	w.c.pool.clock.wake()
}

// end ends the time with a task, and returns the exceeded limit, if any.
func (w *watch) end() *sandbox.Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	return w.excess
}

// tick advances the time with a task, and measures when it is due. It returns
// false if there was no task.
func (w *watch) tick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.worked {
		return false
	}
	w.worked = w.busy
	if w.left -= tick; w.left <= 0 && !w.looking {
		w.looking = true
		go w.due()
	}
	return true
}

func (w *watch) due() {
	began := time.Now()
	u := w.look()
	limit := w.c.pool.config.memory(w.c.key.tier)
	room := time.Duration(float64(max(limit-u.memory, 0)) / growth * float64(time.Second))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = max(min(room, longest), lookingShare*time.Since(began))
	w.looking = false
}

// look measures the interpreter, and kills it if it exceeds a limit.
func (w *watch) look() usage {
	w.looks.Lock()
	defer w.looks.Unlock()
	if w.tree == nil {
		return w.last
	}
	processes, err := w.tree.processes()
	if err != nil {
		return w.last // it has ended
	}
	config := &w.c.pool.config
	limit := config.memory(w.c.key.tier)
	w.last.processes, w.last.memory = len(processes), w.tree.memory(processes, limit)
	if now := time.Now(); !now.Before(w.scratchDue) {
		w.last.scratch, w.last.files = w.scratch.measure(config.Scratch)
		w.last.scratch += w.tree.unlinked(processes, w.device)
		w.scratchDue = time.Now().Add(max(scratchEvery, lookingShare*time.Since(now)))
	}
	if excess := config.excess(w.c.key.tier, w.last); excess != nil {
		w.mu.Lock()
		if w.excess == nil {
			w.excess = excess
		}
		w.mu.Unlock()
		w.c.kill()
	}
	return w.last
}

// settled measures an interpreter without a task, and reports whether it may
// run another: no code runs in it, and at least half of its memory is free.
func (w *watch) settled() bool {
	u := w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.excess == nil && u.processes <= 1 && u.memory <= w.c.pool.config.memory(w.c.key.tier)/2
}

func (w *watch) close() {
	w.looks.Lock()
	defer w.looks.Unlock()
	if w.tree != nil {
		w.tree.close()
	}
	w.tree = nil
}

// excess returns which limit of the tier u exceeds, or nil.
func (c *Config) excess(tier string, u usage) *sandbox.Failure {
	limit := c.memory(tier)
	var text string
	switch {
	case u.memory > limit: //guard:sandbox/memory false
		text = c.tooMuchMemory(tier, u.memory)
	case u.processes > maxProcesses:
		text = fmt.Sprintf("the task runs %d processes at once, %d are allowed", u.processes, maxProcesses)
	case u.scratch > c.Scratch: //guard:sandbox/scratch drop
		text = fmt.Sprintf("the task's files take %s MB, its scratch directory may hold %s MB (the server's --python-scratch)",
			sandbox.Megabytes(u.scratch), sandbox.Megabytes(c.Scratch))
	case u.files > maxFiles:
		text = fmt.Sprintf("the task's scratch directory has more than %d files, or directories nested deeper than %d", maxFiles, maxDepth)
	default:
		return nil
	}
	return failed(sandbox.TaskFailedError, "%s", text).Failure
}

// tooMuchMemory returns the message for an exceeded memory limit; used is 0 where it
// is not known.
func (c *Config) tooMuchMemory(tier string, used int64) string {
	next, bytes := c.larger(tier)
	return sandbox.OutOfMemory(used, sandbox.Memory{Tier: tier, Bytes: c.memory(tier)}, sandbox.Memory{Tier: next, Bytes: bytes})
}

// larger returns the next larger tier, "" if there is none.
func (c *Config) larger(tier string) (name string, bytes int64) {
	limit := c.memory(tier)
	for n, b := range c.MemoryByTier {
		if b > limit && (name == "" || b < bytes) {
			name, bytes = n, b
		}
	}
	return name, bytes
}

// cpus returns the number of threads for numeric libraries in a tier: as many
// processors as Lambda gives a function of that memory, but at most the
// machine's.
func (c *Config) cpus(tier string) int {
	const bytesPerCPU = 1769 << 20
	return min(max(1, int((c.memory(tier)+bytesPerCPU/2)/bytesPerCPU)), runtime.NumCPU())
}
