// Package space watches the free space of the data directory's disk, so that
// writes are rejected before the disk is full: a database that cannot write its
// log cannot continue.
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

// ErrFull means that less than the reserve is free. It is the cause of an
// [errs.Unavailable] error whose message tells how much is free.
var ErrFull = errors.New("the disk of the data directory is nearly full")

const (
	// interval is how long a reading of the disk is valid.
	interval = 100 * time.Millisecond
	// overhead is the disk space used by a write in multiples of its size: for the
	// log, the table, and the copy of a compaction.
	overhead = 3
	// retryAfter is the retry delay of a rejected write.
	retryAfter = 10 * time.Second
	// Bounds of the reserve, which is otherwise an eighth of the disk.
	leastReserve, mostReserve = 8 << 20, 256 << 20
)

// Usage returns the free and total bytes of a disk.
type Usage func() (free, total uint64, err error)

// Space is the free space of one disk. The zero Space and a nil one are
// unlimited.
type Space struct {
	usage Usage
	log   *slog.Logger

	mu      sync.Mutex
	free    uint64 // in the last reading
	reserve uint64
	full    bool

	left atomic.Int64 // bytes that may be written before the next reading
	read atomic.Int64 // time of the last reading, Unix nanoseconds
}

// New returns the Space of a disk. If the disk cannot be read, that is logged,
// and writes are accepted.
func New(usage Usage, log *slog.Logger) *Space { return &Space{usage: usage, log: log} }

// Admit checks that there is space to write n bytes to a database. Errors:
// ErrFull, unless the context is one of table.Reclaiming.
func (s *Space) Admit(ctx context.Context, n int) error { return s.admit(ctx, int64(n)*overhead) }

// AdmitFile is Admit for a file of n bytes, which has no overhead.
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

// Check reports whether writes are accepted. Errors: ErrFull.
func (s *Space) Check(ctx context.Context) error { return s.admit(ctx, 0) }

// Reserve returns the number of bytes that are kept free, 0 before the first
// write.
func (s *Space) Reserve() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserve
}

// measure reads the disk. Once it was full, writes are accepted again only with
// half a reserve more than the reserve, to avoid oscillation.
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
