package executor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	"millrace/shared/platform/blob"
	"millrace/shared/run/sandbox"
)

// files makes the links of an attempt's files. They are stored beside its output;
// the reference of one is its key without the workspace, so that a task cannot
// name a file of another one.
type files struct {
	store  blob.Store
	org    string
	beside string // key of the output, without its extension
	made   *links
	saved  atomic.Int64
}

var _ sandbox.Files = (*files)(nil)

// fileReference is what Save makes: a run of the workspace, which may be an
// earlier one whose outputs are reused, node and attempt, and a number.
var fileReference = regexp.MustCompile(`^runs/[0-9A-Za-z]{1,64}/out/[0-9]{1,9}-[0-9]{1,9}-files/[0-9]{1,9}$`)

func (p Python) files(a *Attempt, made *links) *files {
	return &files{store: p.Blob, org: a.Org, beside: strings.TrimSuffix(a.OutputKey, ".json"), made: made}
}

// Save implements [sandbox.Files].
func (f *files) Save(ctx context.Context) (reference, url string, err error) {
	number := f.saved.Add(1)
	if number > sandbox.MaxSavedFiles {
		return "", "", fmt.Errorf("a task saves at most %d files", sandbox.MaxSavedFiles)
	}
	key := fmt.Sprintf("%s-files/%d", f.beside, number-1)
	reference, ok := strings.CutPrefix(key, f.org+"/")
	if !ok {
		return "", "", errors.New("the attempt has no place for files")
	}
	url, err = f.made.link("link for a file", func(ctx context.Context) (string, error) {
		return f.store.PresignPut(ctx, key, linkLife)
	})(ctx)
	return reference, url, err
}

// Open implements [sandbox.Files].
func (f *files) Open(ctx context.Context, reference string) (url string, err error) {
	if !fileReference.MatchString(reference) { //guard:sandbox/file drop
		return "", errors.New("that is no reference to a file of a task")
	}
	return f.made.link("link to a file", func(ctx context.Context) (string, error) {
		return f.store.PresignGet(ctx, f.org+"/"+reference, linkLife, "")
	})(ctx)
}
