package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/shared/account/audit"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

const (
	downloadFor = 15 * time.Minute
	// readers is the number of traces that a list reads at a time.
	readers = 16
	// maxTrace bounds a trace that is read, in bytes.
	maxTrace = 1 << 20
	// platform is the log of what concerns no workspace.
	platform = "platform"
)

// service implements the rules of exception traces.
type service struct {
	table   table.Table
	blob    blob.Store
	clock   clock.Clock
	cursors httpapi.Cursors
}

// list returns a page of traces, the newest first. Errors: errs.Invalid for an
// invalid next_token.
func (s *service) list(ctx context.Context, in *listIn) (TraceListResponse, error) {
	out := TraceListResponse{Items: []TraceEntry{}}
	after, err := s.cursors.Open(ctx, in)
	if err != nil {
		return out, err
	}
	objects, next, err := s.blob.List(ctx, httpapi.TracePrefix, string(after), in.Limit)
	if err != nil {
		return out, fmt.Errorf("list traces: %w", err)
	}
	entries := make([]*TraceEntry, len(objects))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, o := range objects {
		group.Go(func() error {
			trace, err := s.read(groupCtx, o.Key)
			if errs.CodeOf(err) == errs.NotFound {
				return nil // deleted meanwhile
			}
			entries[i] = &TraceEntry{
				Key: o.Key, Timestamp: trace.Timestamp, RequestID: trace.RequestID, FunctionName: trace.FunctionName, ExceptionType: trace.ExceptionType,
				ExceptionMessage: trace.ExceptionMessage, HTTPMethod: trace.HTTPMethod, HTTPPath: trace.HTTPPath, OrgID: trace.OrgID,
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return out, err
	}
	for _, e := range entries {
		if e != nil {
			out.Items = append(out.Items, *e)
		}
	}
	out.NextToken = s.cursors.Seal(ctx, in, table.Cursor(next))
	return out, nil
}

// content returns a trace. Errors: errs.NotFound.
func (s *service) content(ctx context.Context, in *keyIn) (httpapi.Trace, error) {
	return s.read(ctx, in.Key)
}

// read reads a trace. Errors: errs.NotFound, also for the key of anything else.
func (s *service) read(ctx context.Context, key string) (trace httpapi.Trace, err error) {
	if _, _, ok := httpapi.ParseTraceKey(key); !ok {
		return trace, errAbsent(nil)
	}
	data, _, err := blob.GetBytes(ctx, s.blob, key, maxTrace)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return trace, errAbsent(err)
	case err != nil:
		return trace, fmt.Errorf("read trace: %w", err)
	}
	if err := json.Unmarshal(data, &trace); err != nil {
		return trace, fmt.Errorf("decode trace %s: %w", key, err)
	}
	return trace, nil
}

// download returns a presigned URL of a trace. Errors: errs.NotFound.
func (s *service) download(ctx context.Context, in *keyIn) (TraceDownloadResponse, error) {
	_, id, ok := httpapi.ParseTraceKey(in.Key)
	if !ok {
		return TraceDownloadResponse{}, errAbsent(nil)
	}
	if _, err := s.blob.Head(ctx, in.Key); errors.Is(err, blob.ErrNotFound) {
		return TraceDownloadResponse{}, errAbsent(err)
	} else if err != nil {
		return TraceDownloadResponse{}, fmt.Errorf("look for trace: %w", err)
	}
	url, err := s.blob.PresignGet(ctx, in.Key, downloadFor, "exception-"+id+".json")
	return TraceDownloadResponse{Key: in.Key, URL: url, ExpiresAt: clock.ToMillis(s.clock.Now().Add(downloadFor))}, err
}

// delete deletes traces, after their audit entries were written. Errors:
// errs.Unprocessable for keys of anything else.
func (s *service) delete(ctx context.Context, in *deleteIn) (TraceDeleteResponse, error) {
	keys := slices.Compact(slices.Sorted(slices.Values(in.Body.Keys)))
	var faults []errs.Detail
	for i, key := range in.Body.Keys {
		if _, _, ok := httpapi.ParseTraceKey(key); !ok || blob.ValidateKey(key) != nil {
			faults = append(faults, errs.Detail{Type: "value_error", Loc: errs.Body("keys", i), Msg: "not the key of a trace", Input: key})
		}
	}
	if faults != nil {
		return TraceDeleteResponse{}, errs.Validation(faults...)
	}
	existing, err := s.existing(ctx, keys)
	if err != nil || len(existing) == 0 {
		return TraceDeleteResponse{Status: "deleted", Keys: []string{}}, err
	}
	var entries []table.Write
	for _, key := range existing {
		org, id, _ := httpapi.ParseTraceKey(key)
		entries = append(entries, audit.EntryFor(ctx, cmp.Or(org, platform), s.clock.Now(), audit.Change{
			Action: "delete", ResourceType: "exception", ResourceID: id, Metadata: map[string]any{"key": key},
		}))
	}
	if err := s.table.Transact(ctx, entries...); err != nil {
		return TraceDeleteResponse{}, fmt.Errorf("audit deletion of traces: %w", err)
	}
	if err := s.blob.Delete(ctx, existing...); err != nil {
		return TraceDeleteResponse{}, fmt.Errorf("delete traces: %w", err)
	}
	return TraceDeleteResponse{Status: "deleted", Keys: existing}, nil
}

// existing returns the keys of traces that exist.
func (s *service) existing(ctx context.Context, keys []string) ([]string, error) {
	found := make([]bool, len(keys))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	for i, key := range keys {
		group.Go(func() error {
			_, err := s.blob.Head(groupCtx, key)
			if errors.Is(err, blob.ErrNotFound) {
				return nil
			}
			found[i] = err == nil
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("look for traces: %w", err)
	}
	out := []string{}
	for i, key := range keys {
		if found[i] {
			out = append(out, key)
		}
	}
	return out, nil
}

func errAbsent(cause error) error {
	return errs.Wrap(errs.NotFound, cause, "Exception trace not found")
}
