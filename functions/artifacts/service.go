package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
	"millrace/shared/web/httpapi"
)

const (
	partSize = 8 << 20       // bytes; the object store's minimum is 5 MiB
	validity = 6 * time.Hour // of the parts' URLs
	attempts = 10            // to begin an upload despite concurrent ones
)

// service implements the rules of uploads.
type service struct{ store registry.Store }

// initiate resumes the open upload of the flow version or begins a new one.
func (s *service) initiate(ctx context.Context, req *initiateIn) (InitiateUploadResponse, error) {
	in := &req.Body
	if registry.ReservedVersion(in.FlowVersion) {
		return InitiateUploadResponse{}, errs.Field(errs.Body("flow_version"), in.FlowVersion, "this word is reserved: it has a meaning of its own in paths")
	}
	for range attempts {
		u, previous, err := s.newest(ctx, in.FlowName, in.FlowVersion)
		if err != nil {
			return InitiateUploadResponse{}, err
		}
		assembled := false
		if u.State == open {
			if assembled, err = s.assembled(ctx, u); err != nil {
				return InitiateUploadResponse{}, err
			}
		}
		switch {
		case u.State == open && !assembled && u.SizeBytes == in.SizeBytes && s.store.Clock.Now().Before(u.Expires.Time()):
			return s.resume(ctx, u)
		case u.State == open, u.State == aborted: // an abort is repeated, because it may have been interrupted
			err = s.drop(ctx, u)
		}
		if err == nil {
			u, err = s.begin(ctx, in, previous)
		}
		switch {
		case err == nil:
			return s.resume(ctx, u)
		case errors.Is(err, table.ErrConditionFailed), errors.Is(err, table.ErrConflict):
			// Another caller began, completed or aborted one: read again.
		default:
			return InitiateUploadResponse{}, err
		}
	}
	return InitiateUploadResponse{}, errs.New(errs.Conflict, "Flow '%s' version '%s' is being uploaded by other requests; try again", in.FlowName, in.FlowVersion)
}

// assembled reports whether a completion assembled an open upload and was then
// rejected: the upload accepts no more parts.
func (s *service) assembled(ctx context.Context, u upload) (bool, error) {
	_, err := s.store.Blob.Head(ctx, u.ArtifactKey)
	if errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("resume upload: %w", err)
	}
	return true, nil
}

// begin begins a new upload, which replaces the one of the artifact previous, if
// there is one.
func (s *service) begin(ctx context.Context, in *InitiateUploadRequest, previous string) (upload, error) {
	p, now := tenant.From(ctx), s.store.Clock.Now()
	key, err := blob.Key(p.OrgID, "artifacts", in.FlowName, in.FlowVersion, ids.New(now)+".zip")
	if err != nil {
		return upload{}, fmt.Errorf("begin upload: %w", err)
	}
	if err := s.reserve(ctx, in.SizeBytes); err != nil {
		return upload{}, err
	}
	id, err := s.store.Blob.CreateMultipart(ctx, key, cmp.Or(httpapi.Value(in.ContentType), "application/zip"))
	if err != nil {
		return upload{}, fmt.Errorf("begin upload: %w", err)
	}
	ttl := now.Add(retention).Unix()
	u := upload{
		Key: uploadKey(p.OrgID, key), UploadID: id, ArtifactKey: key, FlowName: in.FlowName, FlowVersion: in.FlowVersion,
		SizeBytes: in.SizeBytes, FileName: httpapi.Value(in.FileName), State: open, Expires: clock.ToMillis(now.Add(validity)),
		CreatedAt: clock.ToMillis(now), CreatedBy: p.Actor(), TTL: ttl,
	}
	u.L1PK, u.L1SK = artifactList(p.OrgID), u.listKey(openList)
	pointer := table.Put{
		Item: current{Key: currentKey(p.OrgID, in.FlowName, in.FlowVersion), ArtifactKey: key, TTL: ttl},
		If:   table.IsNew(),
	}
	if previous != "" {
		pointer.If = table.Or(table.IsNew(), table.Eq("artifact_key", previous))
	}
	err = s.store.Table.Transact(ctx, table.Put{Item: u, If: table.IsNew()}, pointer, audit.Entry(ctx, now, audit.Change{
		Action: "initiate", ResourceType: "artifact", ResourceID: key, After: u.summary(),
	}))
	if errors.Is(err, table.ErrConditionFailed) || errors.Is(err, table.ErrConflict) {
		// It was certainly not written. After other errors it may have been: then the
		// upload is resumed, or the bucket's lifecycle deletes it.
		err = errors.Join(err, s.store.Blob.AbortMultipart(ctx, key, id))
	}
	if err != nil {
		return upload{}, fmt.Errorf("begin upload: %w", err)
	}
	return u, nil
}

// resume returns URLs for all parts, valid as long as the upload.
func (s *service) resume(ctx context.Context, u upload) (InitiateUploadResponse, error) {
	out := InitiateUploadResponse{
		UploadID: u.UploadID, ArtifactKey: u.ArtifactKey, PartSize: partSize, ExpiresAt: u.Expires.String(),
	}
	left := max(u.Expires.Time().Sub(s.store.Clock.Now()), time.Second)
	for n := 1; int64(n-1)*partSize < u.SizeBytes; n++ {
		size := min(partSize, u.SizeBytes-int64(n-1)*partSize)
		url, err := s.store.Blob.PresignPart(ctx, u.ArtifactKey, u.UploadID, n, size, left)
		if err != nil {
			return InitiateUploadResponse{}, fmt.Errorf("presign part %d: %w", n, err)
		}
		out.Parts = append(out.Parts, UploadPart{PartNumber: n, UploadURL: url})
	}
	return out, nil
}

// abort aborts an upload. Errors: those of owned; errs.Conflict if it is
// completed.
func (s *service) abort(ctx context.Context, in *abortIn) (httpapi.None, error) {
	for range attempts {
		u, err := s.owned(ctx, in.Body.UploadID, in.Body.ArtifactKey)
		if err != nil {
			return httpapi.None{}, err
		}
		switch u.State {
		case completed:
			return httpapi.None{}, errs.New(errs.Conflict, "The upload is completed; it can no longer be aborted")
		case rejected:
			return httpapi.None{}, nil
		}
		err = s.drop(ctx, u)
		if !errors.Is(err, table.ErrConditionFailed) && !errors.Is(err, table.ErrConflict) {
			return httpapi.None{}, err
		}
	}
	return httpapi.None{}, errs.New(errs.Conflict, "The upload is being changed by other requests; try again")
}

// drop marks an upload as aborted, which prevents a completion, and then
// deletes its parts and object. It may be repeated.
func (s *service) drop(ctx context.Context, u upload) error {
	if u.State == open {
		now := s.store.Clock.Now()
		before := u.summary()
		u.State = aborted
		err := s.store.Table.Transact(ctx, u.to(aborted, now), audit.Entry(ctx, now, audit.Change{
			Action: "abort", ResourceType: "artifact", ResourceID: u.ArtifactKey, Before: before, After: u.summary(),
		}))
		if err != nil {
			return fmt.Errorf("abort upload: %w", err)
		}
	}
	if err := s.store.Blob.AbortMultipart(ctx, u.ArtifactKey, u.UploadID); err != nil {
		return fmt.Errorf("abort upload: %w", err)
	}
	if err := s.store.Blob.Delete(ctx, u.ArtifactKey); err != nil { // assembled, but never registered
		return fmt.Errorf("abort upload: %w", err)
	}
	return nil
}
