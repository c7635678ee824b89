package executor

import (
	"context"
	"sync/atomic"

	"millrace/shared/platform/blob"
	"millrace/shared/run/sandbox"
)

// files makes the links to an attempt's files.
type files struct {
	store  blob.Store
	org    string
	output string // key of the output, next to which files are stored
	made   *links
	saved  atomic.Int64
}

var _ sandbox.Files = (*files)(nil)

func (p Python) files(a *Attempt, made *links) *files {
	return &files{store: p.Blob, org: a.Org, output: a.OutputKey, made: made}
}

// Save implements [sandbox.Files].
func (f *files) Save(ctx context.Context) (reference, url string, err error) {
	reference, key, err := sandbox.FileReference(f.org, f.output, int(f.saved.Add(1)-1))
	if err != nil {
		return "", "", err
	}
	url, err = f.made.link("link for a file", func(ctx context.Context) (string, error) {
		return f.store.PresignPut(ctx, key, linkLife)
	})(ctx)
	return reference, url, err
}

// Open implements [sandbox.Files].
func (f *files) Open(ctx context.Context, reference string) (url string, err error) {
	key, err := sandbox.FileKey(f.org, reference)
	if err != nil {
		return "", err
	}
	return f.made.link("link to a file", func(ctx context.Context) (string, error) {
		return f.store.PresignGet(ctx, key, linkLife, "")
	})(ctx)
}
