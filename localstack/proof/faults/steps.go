package faults

import (
	"cmp"
	"context"
	"slices"
	"sync"
)

// Steps is a [Gate] that lets requests pass one at a time, on demand: a test
// that waits until everything else is blocked (testing/synctest) and then draws
// which request proceeds controls the order of everything.
type Steps struct {
	mu      sync.Mutex
	waiting []*waiting // in order
	seq     int
	open    bool
	arrived chan struct{}
}

type waiting struct {
	Request
	seq  int
	pass chan struct{}
}

// NewSteps returns a closed gate.
func NewSteps() *Steps { return &Steps{arrived: make(chan struct{}, 1)} }

// Enter waits until the request may pass.
func (s *Steps) Enter(ctx context.Context, r Request) error {
	s.mu.Lock()
	if s.open {
		s.mu.Unlock()
		return ctx.Err()
	}
	s.seq++
	w := &waiting{r, s.seq, make(chan struct{})}
	at, _ := slices.BinarySearchFunc(s.waiting, w, (*waiting).compare)
	s.waiting = slices.Insert(s.waiting, at, w)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
	select {
	case <-w.pass:
		return ctx.Err()
	case <-ctx.Done():
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting = slices.DeleteFunc(s.waiting, func(o *waiting) bool { return o == w })
		return ctx.Err()
	}
}

// Arrived returns a channel that receives when a request has begun to wait.
func (s *Steps) Arrived() <-chan struct{} { return s.arrived }

// Waiting returns the requests of processes that may proceed, in a
// deterministic order: by process, operation, subject and caller, then by
// arrival.
func (s *Steps) Waiting(may func(process string) bool) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.ordered(may)
	out := make([]Request, len(list))
	for i, w := range list {
		out[i] = w.Request
	}
	return out
}

// Pass lets the i-th request of Waiting pass. It returns false if there is
// none.
func (s *Steps) Pass(i int, may func(process string) bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.ordered(may)
	if i >= len(list) {
		return false
	}
	w := list[i]
	s.waiting = slices.DeleteFunc(s.waiting, func(o *waiting) bool { return o == w })
	close(w.pass)
	return true
}

func (s *Steps) ordered(may func(process string) bool) []*waiting {
	return slices.DeleteFunc(slices.Clone(s.waiting), func(w *waiting) bool { return !may(w.Process) })
}

func (w *waiting) compare(o *waiting) int {
	return cmp.Or(cmp.Compare(w.Process, o.Process), cmp.Compare(w.Operation, o.Operation),
		cmp.Compare(w.Subject, o.Subject), cmp.Compare(w.Caller, o.Caller), cmp.Compare(w.seq, o.seq))
}

// Open lets all requests pass from now on.
func (s *Steps) Open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	for _, w := range s.waiting {
		close(w.pass)
	}
	s.waiting = nil
}
