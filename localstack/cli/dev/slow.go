package dev

import (
	"path/filepath"
	"time"
)

// usual is how long the import of a folder may take without a word.
const usual = 3 * time.Second

// explain says what an import is waiting for.
func (l *loop) explain() {
	switch at := l.collector.At(); at {
	case "": // it is being deployed
	case "requirements.txt":
		l.say("the packages of requirements.txt are being installed")
		l.slow = time.After(10 * usual)
	default:
		l.stuck = true
		l.say("%s: this import takes long, and nothing is deployed until it has ended; save a Python file to start anew", at)
	}
}

// replace abandons an import that takes long, so that the save that mends it is
// deployed. Other files may be written by the import itself, again and again.
func (l *loop) replace(s save) {
	if l.next == nil {
		l.next = &s
	}
	l.next.path = s.path
	if filepath.Ext(s.path) == ".py" {
		l.abandon()
	}
}

// printing passes what a process prints to the loop, at once: the last line before an
// import that hangs may tell why.
type printing struct {
	written chan []byte
	done    <-chan struct{} // the loop has ended
}

// Write implements io.Writer.
func (p printing) Write(text []byte) (int, error) {
	select {
	case p.written <- append([]byte(nil), text...):
	case <-p.done:
	}
	return len(text), nil
}
