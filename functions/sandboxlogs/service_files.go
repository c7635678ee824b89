package sandboxlogs

import (
	"context"
	"time"

	"millrace/shared/platform/errs"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/ticket"
)

// linkLife is how long the link of a file is valid. The runner uses it at once,
// and no invocation of the sandbox lasts longer.
const linkLife = 15 * time.Minute

// forFile reports whether a batch requests the link of a file.
func (b Batch) forFile() bool { return b.SaveFile != nil || b.OpenFile != "" }

// file returns the function that makes the link of the file that a batch names,
// nil if it names none. Errors: errs.Unprocessable.
func (s *service) file(a ticket.Attempt, b Batch) (func(ctx context.Context) (reference, url string, err error), error) {
	switch {
	case b.SaveFile != nil && b.OpenFile != "":
		return nil, errs.Field(errs.Body("open_file"), b.OpenFile, "a request is for one file")
	case b.SaveFile != nil:
		output := runstate.OutputKey(a.Org, a.Run, engine.Node(a.Node), a.Number)
		reference, key, err := sandbox.FileReference(a.Org, output, *b.SaveFile)
		if err != nil {
			return nil, errs.Field(errs.Body("save_file"), *b.SaveFile, "%s", err)
		}
		return func(ctx context.Context) (string, string, error) {
			url, err := s.blob.PresignPut(ctx, key, linkLife)
			return reference, url, err
		}, nil
	case b.OpenFile != "":
		key, err := sandbox.FileKey(a.Org, b.OpenFile)
		if err != nil {
			return nil, errs.Field(errs.Body("open_file"), b.OpenFile, "%s", err)
		}
		return func(ctx context.Context) (string, string, error) {
			url, err := s.blob.PresignGet(ctx, key, linkLife, "")
			return b.OpenFile, url, err
		}, nil
	}
	return nil, nil
}
