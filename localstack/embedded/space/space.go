// Package space watches the free space of the data directory's disk, so that
// writes are refused before the disk is quite full: a database that cannot write
// its log cannot go on.
package space

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// ErrFull: less than the reserve is free. It comes as the cause of an
// [errs.Unavailable] error, whose message tells how much is.
var ErrFull = errors.New("the disk of the data directory is nearly full")

const (
	// interval is how long a reading of the disk is relied on.
	interval = 100 * time.Millisecond
	// overhead is what a write may take of the disk beyond its own bytes, for
	// each of them: the log's copy, the table's, the copy of a compaction.
	overhead = 3
	// retryAfter is when a refused write may be tried again.
	retryAfter = 10 * time.Second
	// The bounds of the reserve, which is an eighth of the disk between them.
	leastReserve, mostReserve = 8 << 20, 256 << 20
)

// Usage reads how many bytes a disk has free and in all.
type Usage func() (free, total uint64, err error)

// Space is the free space of one disk. The zero Space and a nil one have no end.
type Space struct {
	usage Usage
	log   *slog.Logger

	mu      sync.Mutex
	free    uint64 // at the last reading
	reserve uint64
	full    bool

	left atomic.Int64 // bytes that may be written before the disk is read again
	read atomic.Int64 // when it was read, Unix nanoseconds
}

// New watches a disk. Its failures to be read are logged and taken for room.
func New(usage Usage, log *slog.Logger) *Space { return &Space{usage: usage, log: log} }

// Admit asks for room for a write of n bytes to a database. Errors: ErrFull,
// unless the context is that of writes that make room (table.Reclaiming).
func (s *Space) Admit(ctx context.Context, n int) error { return s.admit(ctx, int64(n)*overhead) }

// AdmitFile is Admit for a file of n bytes, which takes no more of the disk.
func (s *Space) AdmitFile(ctx context.Context, n int64) error { return s.admit(ctx, n) }

func (s *Space) admit(ctx context.Context, need int64) error {
	if s == nil || s.usage == nil {
		return nil
	}
	if s.left.Add(-need) > 0 && time.Now().UnixNano()-s.read.Load() < int64(interval) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measure(need)
	if !s.full || table.IsReclaiming(ctx) {
		return nil
	}
	return s.err()
}

// Check tells whether writes are accepted. Errors: ErrFull.
func (s *Space) Check(ctx context.Context) error { return s.admit(ctx, 0) }

// Reserve is how many bytes are kept free, 0 before the first write.
func (s *Space) Reserve() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserve
}

// measure reads the disk. Once full, it takes half a reserve more than what is
// kept free until writes are accepted again, so that the two do not alternate.
func (s *Space) measure(need int64) {
	free, total, err := s.usage()
	s.read.Store(time.Now().UnixNano())
	if err != nil {
		s.log.Error("cannot read the free space of the data directory's disk", "error", err)
		s.left.Store(leastReserve)
		s.full = false
		return
	}
	s.free = free
	s.reserve = min(max(total/8, leastReserve), mostReserve)
	limit := s.reserve
	if s.full {
		limit += s.reserve / 2
	}
	full := free < limit+uint64(need)
	if full != s.full {
		s.full = full
		if full {
			s.log.Error("writes are refused: the disk of the data directory is nearly full", "free", free, "reserve", s.reserve)
		} else {
			s.log.Warn("writes are accepted again: the disk of the data directory has room", "free", free)
		}
	}
	s.left.Store(0)
	if !full {
		s.left.Store(int64(min(free-limit, 1<<40)))
	}
}

func (s *Space) err() error {
	e := errs.Wrap(errs.Unavailable, ErrFull, "%v: %d MB are free and %d MB are kept so: writes are refused until there is more room",
		ErrFull, s.free>>20, s.reserve>>20)
	e.RetryAfter = retryAfter
	return e
}
