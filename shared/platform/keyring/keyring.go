// Package keyring holds the keys of MACs and lets them be rotated while they
// are in use: the current key signs, and it and the one before it verify.
package keyring

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"millrace/shared/platform/clock"
)

// Times between two reads of the source of the keys.
const (
	// Stale is the age at which keys are read again before they are used.
	Stale = 5 * time.Minute
	// Again is the least time between two reads, so that invalid signatures cannot
	// make a process read for each of them.
	Again = 5 * time.Second
	// patience is how long a read may take.
	patience = 4 * time.Second
)

// Keys are the two newest keys.
type Keys struct {
	Current  []byte // signs and verifies
	Previous []byte // verifies; nil: there is none
}

// Ring provides the keys for one purpose. A nil Ring has none. It is safe for
// concurrent use.
type Ring struct {
	source  *source
	purpose string // the keys are derived for it; empty: they are those of the source
}

// source holds the keys as they were last read.
type source struct {
	read  func(ctx context.Context) (Keys, error) // nil: the keys never change
	clock clock.Clock
	log   *slog.Logger

	reading sync.Mutex // held while the keys are read

	mu    sync.Mutex // guards what follows
	keys  Keys
	tried time.Time // of the last read, or the last that failed
	ok    time.Time // of the last read that succeeded
}

// Config configures a Ring whose keys may be rotated.
type Config struct {
	Keys Keys // as they were just read
	// Read reads the keys anew. Its calls do not overlap.
	Read  func(ctx context.Context) (Keys, error)
	Clock clock.Clock
	Log   *slog.Logger // receives failures of Read; nil: the default logger
}

// New returns a Ring that reads its keys again when they are old, and when a
// signature does not verify. While that fails, the keys that it has stay in use.
func New(c Config) *Ring {
	now := c.Clock.Now()
	if c.Log == nil {
		c.Log = slog.Default()
	}
	// A signature of a key that was made after the first read is to verify at once.
	return &Ring{source: &source{read: c.Read, clock: c.Clock, log: c.Log, keys: c.Keys, ok: now}}
}

// Static returns a Ring of keys that do not change, newest first; those after
// the second are ignored. Without keys it returns nil.
func Static(keys ...[]byte) *Ring {
	if len(keys) == 0 || len(keys[0]) == 0 {
		return nil
	}
	out := Keys{Current: keys[0]}
	if len(keys) > 1 && len(keys[1]) > 0 {
		out.Previous = keys[1]
	}
	return &Ring{source: &source{keys: out}}
}

// Derive returns a Ring of 32-byte keys for a purpose, derived from these keys:
// the same in all processes that have the same keys.
func (r *Ring) Derive(purpose string) *Ring {
	if r == nil {
		return nil
	}
	return &Ring{source: r.source, purpose: purpose}
}

// Current returns the key to sign with, nil without one.
func (r *Ring) Current(ctx context.Context) []byte {
	if r == nil {
		return nil
	}
	r.source.refresh(ctx)
	return r.key(r.source.now().Current)
}

// Verify reports whether ok returns true for a key. It tries the current key
// and the previous one. If neither will do, the keys may have been rotated: it
// reads them again, unless it just did, and tries those that are new.
func (r *Ring) Verify(ctx context.Context, ok func(key []byte) bool) bool {
	if r == nil {
		return false
	}
	r.source.refresh(ctx)
	had := r.source.now()
	if r.try(had, Keys{}, ok) {
		return true
	}
	return r.source.reread(ctx) && r.try(r.source.now(), had, ok)
}

// try calls ok with the keys that are not among those that were tried.
func (r *Ring) try(keys, tried Keys, ok func(key []byte) bool) bool {
	for _, key := range [][]byte{keys.Current, keys.Previous} {
		if key != nil && !hmac.Equal(key, tried.Current) && !hmac.Equal(key, tried.Previous) && ok(r.key(key)) {
			return true
		}
	}
	return false
}

// key derives a key for the ring's purpose.
func (r *Ring) key(key []byte) []byte {
	if key == nil || r.purpose == "" {
		return key
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("derived key: " + r.purpose))
	return mac.Sum(nil)
}

func (s *source) now() Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys
}

// refresh reads keys that are old. One caller reads, the others go on with what
// there is.
func (s *source) refresh(ctx context.Context) {
	if s.read == nil || !s.old() || !s.reading.TryLock() {
		return
	}
	defer s.reading.Unlock()
	if s.old() {
		s.load(ctx)
	}
}

func (s *source) old() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	return now.Sub(s.ok) >= Stale && now.Sub(s.tried) >= Again
}

// reread reads the keys if they were not read recently. It reports whether they
// may differ from those of its caller.
func (s *source) reread(ctx context.Context) bool {
	if s.read == nil {
		return false
	}
	s.reading.Lock() // whoever waits here finds what the one before has read
	defer s.reading.Unlock()
	s.mu.Lock()
	recent := s.clock.Now().Sub(s.tried) < Again
	s.mu.Unlock()
	if !recent {
		s.load(ctx)
	}
	return true
}

// load reads the keys. They are for every caller, so that it does not depend on
// this one's context.
func (s *source) load(ctx context.Context) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	keys, err := s.read(limited)
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tried = now; err != nil {
		s.log.WarnContext(ctx, "keys were not read again: those before stay in use", "age", now.Sub(s.ok).Round(time.Second).String(), "error", err)
		return
	}
	s.keys, s.ok = keys, now
}
