//go:build unix

package interpreters

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"syscall"

	"millrace/shared/platform/clock"
	"millrace/shared/run/sandbox"
)

// maxLine is the longest line of standard output in one event.
const maxLine = 64 << 10

// descriptor reads a child's output that bypasses Python's own streams: that of
// C code, of subprocesses, and of a crashing interpreter.
type descriptor struct {
	name  string // stdout or stderr
	level string
	file  *os.File
	raw   syscall.RawConn
	clock clock.Clock

	mu   sync.Mutex
	sink func(sandbox.LogEvent) // nil between tasks: the output then belongs to no task
	rest []byte
	buf  [16 << 10]byte
}

func newDescriptor(name, level string, file *os.File, c clock.Clock) (*descriptor, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	return &descriptor{name: name, level: level, file: file, raw: raw, clock: c}, nil
}

// follow reads until the child's end is closed.
func (d *descriptor) follow() {
	_ = d.raw.Read(func(fd uintptr) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.readAll(int(fd))
	})
}

// readAll reads what is available, with mu held. It returns true at the end of
// the file.
func (d *descriptor) readAll(fd int) bool {
	for {
		n, err := syscall.Read(fd, d.buf[:])
		switch {
		case n > 0:
			d.take(d.buf[:n])
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false
		default:
			return true
		}
	}
}

// start sends further output to sink.
func (d *descriptor) start(sink func(sandbox.LogEvent)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rest, d.sink = d.rest[:0], sink
}

// finish sends all output so far, including an unterminated line, and detaches
// the sink.
func (d *descriptor) finish() {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.raw.Control(func(fd uintptr) { d.readAll(int(fd)) })
	if len(d.rest) > 0 {
		d.emit(d.rest)
	}
	d.rest, d.sink = d.rest[:0], nil
}

func (d *descriptor) take(data []byte) {
	if d.sink == nil {
		return
	}
	for len(data) > 0 {
		line, after, ended := bytes.Cut(data, []byte{'\n'})
		room := maxLine - len(d.rest)
		if len(line) > room {
			line, after, ended = line[:room], data[room:], true
		}
		d.rest = append(d.rest, line...)
		if ended {
			d.emit(d.rest)
			d.rest = d.rest[:0]
		}
		data = after
	}
}

func (d *descriptor) emit(line []byte) {
	if d.sink == nil {
		return
	}
	text := strings.ToValidUTF8(string(bytes.TrimSuffix(line, []byte{'\r'})), "\uFFFD")
	d.sink(sandbox.LogEvent{Time: d.clock.Now(), Level: d.level, Logger: d.name, Message: text})
}
