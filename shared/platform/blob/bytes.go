package blob

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// PutBytes stores data under key. Errors: those of [Store.Put].
func PutBytes(ctx context.Context, store Store, key string, data []byte, opts PutOptions) (Object, error) {
	return store.Put(ctx, key, bytes.NewReader(data), int64(len(data)), opts)
}

// GetBytes reads a whole object of at most limit bytes. Errors: ErrNotFound,
// ErrTooLarge (before anything is read into memory).
func GetBytes(ctx context.Context, store Store, key string, limit int64) (data []byte, obj Object, err error) {
	body, obj, err := store.Get(ctx, key, nil)
	if err != nil {
		return nil, Object{}, err
	}
	defer body.Close()
	if obj.Size > limit {
		return nil, obj, fmt.Errorf("get %s: %w: %d bytes, at most %d", key, ErrTooLarge, obj.Size, limit)
	}
	data = make([]byte, obj.Size)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, obj, fmt.Errorf("get %s: %w", key, err)
	}
	return data, obj, nil
}
