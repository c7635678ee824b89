// Package child runs programs that are of no use without this process: they die
// with it, with what they started, and what they wrote last can be told.
package child

import (
	"bytes"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// outputPatience is how long a dead program's output may be held open by
// processes that it started and that left its group.
const outputPatience = time.Second

// Process is a running program.
type Process struct {
	cmd    *exec.Cmd
	output Tail
	exited chan struct{}
}

// Start runs a command in a process group of its own. What it writes goes to
// log too, unless that is nil; cmd's own outputs are not used.
func Start(cmd *exec.Cmd, log io.Writer) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	var out io.Writer = &p.output
	if log != nil {
		out = io.MultiWriter(&p.output, log)
	}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = outputPatience
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	// It is started and waited for on one operating system thread: the kernel's
	// "parent died" is the death of the thread that started the child.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its state says how it ended
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Kill kills the program and its group, and waits until it is gone. More than
// once is fine.
func (p *Process) Kill() {
	select {
	case <-p.exited: // its number may be another's by now
		return
	default:
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// PID is the number of the process, and of its group.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the program is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// State tells how the program ended, once it is gone.
func (p *Process) State() string { return p.cmd.ProcessState.String() }

// Output returns the last of what the program wrote.
func (p *Process) Output() string { return p.output.String() }

// tailBytes is how much of an output a Tail keeps.
const tailBytes = 16 << 10

// Tail keeps the last of what is written to it. Safe for concurrent use.
type Tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write keeps b and forgets what is too old.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(b)
	t.buf.Next(max(0, t.buf.Len()-tailBytes))
	return len(b), nil
}

// String returns what is kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
