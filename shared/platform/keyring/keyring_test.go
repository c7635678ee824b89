package keyring_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/keyring"
)

// store is where keys come from.
type store struct {
	mu    sync.Mutex
	keys  keyring.Keys
	err   error
	reads atomic.Int32
	now   time.Time
}

func newStore() *store {
	return &store{keys: keyring.Keys{Current: []byte("one")}, now: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)}
}

func (s *store) rotate(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keyring.Keys{Current: []byte(key), Previous: s.keys.Current}
}

func (s *store) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *store) ring() *keyring.Ring {
	return keyring.New(keyring.Config{
		Keys: s.keys, Log: slog.New(slog.DiscardHandler),
		Clock: clock.Func(func() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now }),
		Read: func(context.Context) (keyring.Keys, error) {
			s.reads.Add(1)
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.keys, s.err
		},
	})
}

func verifies(t *testing.T, r *keyring.Ring, key string) bool {
	t.Helper()
	return r.Verify(t.Context(), func(k []byte) bool { return string(k) == key })
}

func TestBothKeysVerifyWhileOneIsRotated(t *testing.T) {
	t.Parallel()
	s := newStore()
	before, signer := s.ring(), s.ring()
	s.rotate("two")
	after := s.ring()
	assert.True(t, verifies(t, after, "one"), "signed before the rotation")
	assert.True(t, verifies(t, after, "two"))
	assert.Zero(t, s.reads.Load())
	assert.True(t, verifies(t, before, "two"), "a process that has the old key notices")
	assert.EqualValues(t, 1, s.reads.Load())
	assert.Equal(t, "two", string(before.Current(t.Context())))

	assert.Equal(t, "one", string(signer.Current(t.Context())), "a signer does not notice yet, and need not")
	s.advance(keyring.Stale)
	assert.Equal(t, "two", string(signer.Current(t.Context())))

	s.rotate("three")
	s.advance(keyring.Stale)
	for _, r := range []*keyring.Ring{before, after, signer} {
		assert.False(t, verifies(t, r, "one"), "two rotations later")
		assert.True(t, verifies(t, r, "two"))
		assert.True(t, verifies(t, r, "three"))
	}
}

func TestInvalidSignaturesDoNotMakeItRead(t *testing.T) {
	t.Parallel()
	s := newStore()
	r := s.ring()
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() { assert.False(t, verifies(t, r, "forged")) })
	}
	all.Wait()
	assert.EqualValues(t, 1, s.reads.Load())
	s.advance(keyring.Again)
	assert.False(t, verifies(t, r, "forged"))
	assert.EqualValues(t, 2, s.reads.Load())
}

func TestKeysStayWhileTheyCannotBeRead(t *testing.T) {
	t.Parallel()
	s := newStore()
	r := s.ring()
	s.err = errors.New("throttled")
	s.advance(keyring.Stale)
	for range 3 {
		assert.True(t, verifies(t, r, "one"))
		assert.Equal(t, "one", string(r.Current(t.Context())))
	}
	assert.EqualValues(t, 1, s.reads.Load(), "it is not read for each use")
	s.err = nil
	s.rotate("two")
	s.advance(keyring.Again)
	assert.Equal(t, "two", string(r.Current(t.Context())))
}

// TestOneReadsForAll: while one caller reads old keys, the others use them.
func TestOneReadsForAll(t *testing.T) {
	t.Parallel()
	s := newStore()
	began, let := make(chan struct{}), make(chan struct{})
	now := clock.Func(func() time.Time { s.mu.Lock(); defer s.mu.Unlock(); return s.now })
	r := keyring.New(keyring.Config{Keys: s.keys, Clock: now, Read: func(ctx context.Context) (keyring.Keys, error) {
		close(began)
		<-let
		return keyring.Keys{Current: []byte("two")}, ctx.Err()
	}})
	s.advance(keyring.Stale)
	read := make(chan string, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // what is read is for the others, too
	go func() { read <- string(r.Current(ctx)) }()
	<-began
	assert.Equal(t, "one", string(r.Current(t.Context())))
	close(let)
	assert.Equal(t, "two", <-read)
}

func TestDerivedKeysFollowTheirSource(t *testing.T) {
	t.Parallel()
	s := newStore()
	r := s.ring()
	codes, other := r.Derive("codes"), r.Derive("other")
	old := codes.Current(t.Context())
	require.Len(t, old, 32)
	assert.NotEqual(t, old, other.Current(t.Context()))
	assert.Equal(t, old, keyring.Static([]byte("one")).Derive("codes").Current(t.Context()), "the same in all processes")
	s.rotate("two")
	assert.True(t, codes.Verify(t.Context(), func(k []byte) bool { return string(k) != string(old) }))
	assert.True(t, codes.Verify(t.Context(), func(k []byte) bool { return string(k) == string(old) }))
	assert.False(t, verifies(t, codes, "two"), "the source's own keys are for nothing else")
}

func TestNoKeys(t *testing.T) {
	t.Parallel()
	for _, r := range []*keyring.Ring{nil, keyring.Static(), keyring.Static(nil, []byte("previous"))} {
		assert.Nil(t, r.Derive("x").Current(t.Context()))
		assert.Nil(t, r.Current(t.Context()))
		assert.False(t, r.Verify(t.Context(), func([]byte) bool { return true }))
	}
	r := keyring.Static([]byte("one"), nil)
	assert.False(t, r.Verify(t.Context(), func(k []byte) bool { return len(k) == 0 }))
}
