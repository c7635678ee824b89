//go:build unix

package interpreters

import (
	"context"
	"io"

	"millrace/shared/run/sandbox"
)

// save stores a file that follows in the pipe, and responds with its reference
// or an error. The returned error means that the child cannot continue.
func (t *transfer) save(ctx context.Context, from io.Reader, size int64) error {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	if t.files == nil {
		if _, err := io.CopyN(io.Discard, from, size); err != nil {
			return err
		}
		return t.sendText(frameNoInput, "there is no place for files here")
	}
	reference, url, err := t.files.Save(ctx)
	if err != nil {
		if _, err := io.CopyN(io.Discard, from, size); err != nil {
			return err
		}
		return t.sendText(frameNoInput, err.Error())
	}
	if err := t.put(ctx, known(url), from, size, "application/octet-stream"); err != nil {
		return t.sendText(frameNoInput, err.Error())
	}
	return t.sendText(frameSaved, reference)
}

// open responds with the content of a file, or an error.
func (t *transfer) open(ctx context.Context, reference []byte) error {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	if t.files == nil {
		return t.sendText(frameNoInput, "there are no files here")
	}
	url, err := t.files.Open(ctx, string(reference))
	if err != nil {
		return t.sendText(frameNoInput, err.Error())
	}
	return t.get(ctx, known(url), sandbox.MaxFileBytes)
}

// known returns the Link of a URL.
func known(url string) sandbox.Link {
	return func(context.Context) (string, error) { return url, nil }
}
