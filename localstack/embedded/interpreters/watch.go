//go:build unix

package interpreters

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"millrace/shared/run/sandbox"
)

// Bounds of one interpreter and all that it starts, besides its memory.
const (
	maxProcesses = 512
	maxFiles     = 100_000 // in its scratch directory
)

// How often a task is looked at: often enough that memory, growing as fast as a
// machine hands it out, goes little past the limit, and never so often that
// looking takes more than a twentieth of a processor.
const (
	growth       = 4 << 30 // bytes/s
	longest      = 200 * time.Millisecond
	scratchEvery = 200 * time.Millisecond
	lookingShare = 20
)

// usage is what an interpreter and all that it started hold.
type usage struct {
	memory    int64 // bytes, resident or swapped out
	processes int
	scratch   int64 // bytes on disk
	files     int
}

// watch bounds what an interpreter holds by looking at it while it has a task.
// Short tasks are looked at together: only the time with a task counts.
type watch struct {
	c *interpreter

	mu      sync.Mutex
	busy    bool             // it has a task
	worked  bool             // it had one since the last tick
	looking bool             // a look is under way
	left    time.Duration    // with a task, until the next look
	excess  *sandbox.Failure // what it went over; it is dead then

	looks      sync.Mutex // one look at a time
	tree       *tree      // nil once closed
	scratch    scratch
	device     uint64    // of the scratch directory
	scratchDue time.Time // when it is measured next
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

// end ends the time with a task, and tells how the task went over a limit.
func (w *watch) end() *sandbox.Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
	return w.excess
}

// tick counts the time with a task, and has a look when it is due. False: there
// was no task.
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

// look takes the measure of the interpreter, and ends it if it is too large.
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

// settled looks at an interpreter without a task, and tells whether it may run
// another: nothing runs on in it, and it left the next task half of its memory.
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

// excess says what of u is more than a task of the tier may hold; nil: nothing.
func (c *Config) excess(tier string, u usage) *sandbox.Failure {
	limit := c.memory(tier)
	var text string
	switch {
	case u.memory > limit: //guard:sandbox/memory drop
		text = c.tooMuchMemory(tier, megabytes(u.memory))
	case u.processes > maxProcesses:
		text = fmt.Sprintf("the task runs %d processes at once, %d are allowed", u.processes, maxProcesses)
	case u.scratch > c.Scratch: //guard:sandbox/scratch drop
		text = fmt.Sprintf("the task's files take %s MB, its scratch directory may hold %s MB (the server's --python-scratch)",
			megabytes(u.scratch), megabytes(c.Scratch))
	case u.files > maxFiles:
		text = fmt.Sprintf("the task's scratch directory has more than %d files, or directories nested deeper than %d", maxFiles, maxDepth)
	default:
		return nil
	}
	return failed(sandbox.TaskFailedError, "%s", text).Failure
}

// tooMuchMemory says that a task went over its tier's memory and which tier to
// take instead.
func (c *Config) tooMuchMemory(tier, used string) string {
	text := fmt.Sprintf("the task used %s MB of %s's %s MB of memory; ", used, tier, megabytes(c.memory(tier)))
	if larger, bytes := c.larger(tier); larger != "" {
		return text + fmt.Sprintf("the next larger tier is execution_mode %s with %s MB", larger, megabytes(bytes))
	}
	return text + "there is no larger tier"
}

// larger is the next larger tier; "" without one.
func (c *Config) larger(tier string) (name string, bytes int64) {
	limit := c.memory(tier)
	for n, b := range c.MemoryByTier {
		if b > limit && (name == "" || b < bytes) {
			name, bytes = n, b
		}
	}
	return name, bytes
}

// cpus is how many threads of a numeric library fit a tier: as many processors
// as Lambda gives a function of that memory, and no more than the machine has.
func (c *Config) cpus(tier string) int {
	const bytesPerCPU = 1769 << 20
	return min(max(1, int((c.memory(tier)+bytesPerCPU/2)/bytesPerCPU)), runtime.NumCPU())
}

// megabytes writes bytes as MB, with thousands set apart.
func megabytes(bytes int64) string {
	text := fmt.Sprint(bytes >> 20)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
