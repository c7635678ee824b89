package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// readAhead is the minimum size of a range request. It holds a zip's central
// directory of some thousand files and fits in a small function.
const readAhead = 256 << 10

// ReaderAt reads an object at random by range requests and buffers one window,
// so that archive/zip, for example, lists an archive without downloading it. It
// is safe for concurrent use; readers share the window.
type ReaderAt struct {
	ctx   context.Context
	store Store
	key   string
	size  int64

	mu     sync.Mutex
	etag   string // of the first response; all others must match
	start  int64  // offset of window
	window []byte
}

// NewReaderAt returns a reader of an object of size bytes, as returned by Head.
// ctx applies to all its reads.
func NewReaderAt(ctx context.Context, store Store, key string, size int64) *ReaderAt {
	return &ReaderAt{ctx: ctx, store: store, key: key, size: size}
}

// Size returns the object's size in bytes.
func (r *ReaderAt) Size() int64 { return r.size }

// ReadAt implements io.ReaderAt. Errors: io.EOF at the end, ErrArgument for a
// negative offset, ErrChanged if the object was replaced since the first read,
// and those of [Store.Get].
func (r *ReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read %s: %w: offset %d", r.key, ErrArgument, off)
	}
	if off >= r.size {
		return 0, io.EOF
	}
	want := p
	if rest := r.size - off; int64(len(want)) > rest {
		want = want[:rest]
	}
	n, err := r.read(want, off)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

// read fills p, which must lie within the object.
func (r *ReaderAt) read(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.fromWindow(p, off)
	if n == len(p) {
		return n, nil
	}
	rest, at := p[n:], off+int64(n)
	if len(rest) >= readAhead { // a large read does not benefit from the window
		m, err := r.fetch(rest, at)
		return n + m, err
	}
	// Near the end the window extends backwards, because archives are read from
	// their tail.
	start := max(0, min(at, r.size-readAhead))
	window := make([]byte, min(readAhead, r.size-start))
	if _, err := r.fetch(window, start); err != nil {
		return n, err
	}
	r.start, r.window = start, window
	return n + r.fromWindow(rest, at), nil
}

// fromWindow copies the part of p that the window holds from p's start.
func (r *ReaderAt) fromWindow(p []byte, off int64) int {
	if off < r.start || off >= r.start+int64(len(r.window)) {
		return 0
	}
	return copy(p, r.window[off-r.start:])
}

func (r *ReaderAt) fetch(p []byte, off int64) (int, error) {
	body, obj, err := r.store.Get(r.ctx, r.key, &Range{Offset: off, Length: int64(len(p))})
	if err != nil {
		return 0, err
	}
	defer body.Close()
	if r.etag == "" {
		r.etag = obj.ETag
	}
	if obj.ETag != r.etag || obj.Size != r.size {
		return 0, fmt.Errorf("read %s: %w", r.key, ErrChanged)
	}
	n, err := io.ReadFull(body, p)
	if errors.Is(err, io.EOF) { // an empty response to a range within the object
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
