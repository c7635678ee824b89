package objectstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/versity/versitygw/s3err"
)

// pauses blocks deletions while a backup is made.
type pauses struct {
	mu      sync.Mutex
	paused  int           // pauses that have not been resumed
	active  int           // deletions in progress
	closed  bool          // waiting is over
	changed chan struct{} // closed at the next change
}

func newPauses() *pauses { return &pauses{changed: make(chan struct{})} }

// PauseDeletes blocks deletions and overwrites of objects and returns when none
// is in progress. Until resume is called, such requests wait as long as their
// contexts permit; reads and writes of new keys continue. Pauses nest: the last
// resume ends the pause. Calling resume again does nothing.
func (s *Server) PauseDeletes() (resume func()) { return s.backend.pauses.pause() }

func (p *pauses) pause() (resume func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused++
	for p.active > 0 {
		p.wait(context.Background())
	}
	return sync.OnceFunc(func() { p.change(func() { p.paused-- }) })
}

// enter begins a deletion, which ends with leave. Errors: SlowDown if the
// context or the server ends while it waits.
func (p *pauses) enter(ctx context.Context) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.paused > 0 && !p.closed && ctx.Err() == nil {
		p.wait(ctx)
	}
	if p.paused > 0 {
		return nil, s3err.GetAPIError(s3err.ErrSlowDown)
	}
	p.active++
	return func() { p.change(func() { p.active-- }) }, nil
}

// close ends all waiting.
func (p *pauses) close() { p.change(func() { p.closed = true }) }

// wait releases the lock until the state changes or ctx ends.
func (p *pauses) wait(ctx context.Context) {
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

func (p *pauses) change(what func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	what()
	close(p.changed)
	p.changed = make(chan struct{})
}

// overwrite is enter for a write of key, if the object exists.
func (b *objects) overwrite(ctx context.Context, bucket, key string) (leave func(), err error) {
	if _, err := os.Lstat(b.path(bucket, key)); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	return b.pauses.enter(ctx)
}
