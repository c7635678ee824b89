package blobtest

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"millrace/shared/platform/blob"
)

// errUpload is returned by multipart operations and links, which Memory lacks.
var errUpload = errors.New("blobtest: the memory store takes no uploads in parts")

// Memory is an in-memory [blob.Store] for tests. It needs no listener, so it
// works inside a testing/synctest bubble. It has no multipart uploads, and its
// presigned URLs do not work.
type Memory struct {
	mu      sync.Mutex
	objects map[string]held
}

type held struct {
	data []byte
	obj  blob.Object
}

// Put stores an object.
func (m *Memory) Put(_ context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (blob.Object, error) {
	if err := blob.ValidateKey(key); err != nil {
		return blob.Object{}, err
	}
	data, err := io.ReadAll(body)
	if err != nil {
		return blob.Object{}, err
	}
	if int64(len(data)) != size {
		return blob.Object{}, fmt.Errorf("put %s: %w: %d bytes, not %d", key, blob.ErrSize, len(data), size)
	}
	sum := md5.Sum(data)
	obj := blob.Object{Key: key, Size: size, ETag: hex.EncodeToString(sum[:]), ContentType: opts.ContentType, Modified: time.Now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, taken := m.objects[key]; taken && opts.IfAbsent {
		return blob.Object{}, blob.ErrExists
	}
	if m.objects == nil {
		m.objects = map[string]held{}
	}
	m.objects[key] = held{data, obj}
	return obj, nil
}

// Get opens an object.
func (m *Memory) Get(_ context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.objects[key]
	if !ok {
		return nil, blob.Object{}, blob.ErrNotFound
	}
	data := h.data
	if rng != nil {
		if rng.Offset >= int64(len(data)) {
			return nil, blob.Object{}, blob.ErrRange
		}
		data = data[rng.Offset:]
		if rng.Length > 0 {
			data = data[:min(rng.Length, int64(len(data)))]
		}
	}
	return io.NopCloser(bytes.NewReader(data)), h.obj, nil
}

// Head describes an object.
func (m *Memory) Head(_ context.Context, key string) (blob.Object, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.objects[key]
	if !ok {
		return blob.Object{}, blob.ErrNotFound
	}
	return h.obj, nil
}

// Delete removes objects.
func (m *Memory) Delete(_ context.Context, keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		delete(m.objects, key)
	}
	return nil
}

// List returns objects in order of their keys.
func (m *Memory) List(_ context.Context, prefix, after string, limit int) ([]blob.Object, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if limit < 1 || limit > blob.MaxPageSize {
		limit = blob.MaxPageSize
	}
	var keys []string
	for key := range m.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	next := ""
	if len(keys) > limit {
		keys = keys[:limit]
		next = keys[limit-1]
	}
	out := make([]blob.Object, len(keys))
	for i, key := range keys {
		out[i] = m.objects[key].obj
	}
	return out, next, nil
}

// Copy copies an object.
func (m *Memory) Copy(_ context.Context, from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok := m.objects[from]
	if !ok {
		return blob.ErrNotFound
	}
	h.obj.Key = to
	m.objects[to] = h
	return nil
}

// PresignGet returns a URL that does not work.
func (*Memory) PresignGet(_ context.Context, key string, _ time.Duration, _ string) (string, error) {
	return "memory:get/" + key, nil
}

// PresignPut returns a URL that does not work.
func (*Memory) PresignPut(_ context.Context, key string, _ time.Duration) (string, error) {
	return "memory:put/" + key, nil
}

// CreateMultipart fails.
func (*Memory) CreateMultipart(context.Context, string, string) (string, error) {
	return "", errUpload
}

// PresignPart fails.
func (*Memory) PresignPart(context.Context, string, string, int, int64, time.Duration) (string, error) {
	return "", errUpload
}

// CompleteMultipart fails.
func (*Memory) CompleteMultipart(context.Context, string, string, []blob.Part) (blob.Object, error) {
	return blob.Object{}, errUpload
}

// AbortMultipart fails.
func (*Memory) AbortMultipart(context.Context, string, string) error { return errUpload }

// Check succeeds.
func (*Memory) Check(context.Context) error { return nil }
