package blob

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Within returns a store that writes only to the given folders of workspaces,
// that is, to keys <org>/<folder>/…. Any other write fails with ErrKey, as the
// function's role refuses it on AWS. Reads are not restricted.
func Within(store Store, folders ...string) Store { return within{store, folders} }

type within struct {
	Store
	folders []string
}

func (w within) check(keys ...string) error {
	for _, key := range keys {
		_, path, _ := strings.Cut(key, "/")
		folder, _, inside := strings.Cut(path, "/")
		if !inside || !slices.Contains(w.folders, folder) {
			return fmt.Errorf("%w: %q is in none of the writable folders: %s", ErrKey, key, strings.Join(w.folders, ", "))
		}
	}
	return nil
}

func (w within) Put(ctx context.Context, key string, body io.Reader, size int64, opts PutOptions) (Object, error) {
	if err := w.check(key); err != nil {
		return Object{}, err
	}
	return w.Store.Put(ctx, key, body, size, opts)
}

func (w within) Delete(ctx context.Context, keys ...string) error {
	if err := w.check(keys...); err != nil {
		return err
	}
	return w.Store.Delete(ctx, keys...)
}

func (w within) Copy(ctx context.Context, from, to string) error {
	if err := w.check(to); err != nil {
		return err
	}
	return w.Store.Copy(ctx, from, to)
}

func (w within) PresignPut(ctx context.Context, key string, ttl time.Duration) (string, error) {
	if err := w.check(key); err != nil {
		return "", err
	}
	return w.Store.PresignPut(ctx, key, ttl)
}

func (w within) CreateMultipart(ctx context.Context, key, contentType string) (string, error) {
	if err := w.check(key); err != nil {
		return "", err
	}
	return w.Store.CreateMultipart(ctx, key, contentType)
}

func (w within) PresignPart(ctx context.Context, key, uploadID string, part int, size int64, ttl time.Duration) (string, error) {
	if err := w.check(key); err != nil {
		return "", err
	}
	return w.Store.PresignPart(ctx, key, uploadID, part, size, ttl)
}

func (w within) CompleteMultipart(ctx context.Context, key, uploadID string, parts []Part) (Object, error) {
	if err := w.check(key); err != nil {
		return Object{}, err
	}
	return w.Store.CompleteMultipart(ctx, key, uploadID, parts)
}

func (w within) AbortMultipart(ctx context.Context, key, uploadID string) error {
	if err := w.check(key); err != nil {
		return err
	}
	return w.Store.AbortMultipart(ctx, key, uploadID)
}
