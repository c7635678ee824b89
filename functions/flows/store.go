package flows

import (
	"context"
	"errors"
	"fmt"

	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
)

// draft is a flow's draft as stored; its content lies in the item or, over
// registry.InlineBytes, in an object.
type draft struct {
	table.Key
	table.ListEntries
	FlowName    string       `table:"flow_name"`
	BaseVersion string       `table:"base_version,omitempty"` // the version it was copied from
	BaseETag    string       `table:"base_etag"`              // of the copy: an edited draft has another
	ETag        string       `table:"etag"`
	Revision    string       `table:"revision"` // ULID of the last write
	Size        int          `table:"size"`     // bytes of the content as JSON
	Files       int          `table:"files"`
	Omitted     []string     `table:"omitted,omitempty"` // files of the artifact that are not in the draft
	Content     string       `table:"content,omitempty"`
	ObjectKey   string       `table:"object_key,omitempty"`
	CreatedAt   clock.Millis `table:"created_at"`
	UpdatedAt   clock.Millis `table:"updated_at"`
	UpdatedBy   string       `table:"updated_by"`
}

// summary is what audit entries show: never the source itself.
func (d *draft) summary() map[string]any {
	return map[string]any{
		"flow_name": d.FlowName, "base_version": d.BaseVersion, "etag": d.ETag, "size": d.Size, "files": d.Files,
	}
}

func (d *draft) response(c content) DraftResponse {
	out := DraftResponse{
		FlowName: d.FlowName, FlowSpec: c.FlowSpec, Source: c.Source, OmittedFiles: append([]string{}, d.Omitted...),
		Edited: d.ETag != d.BaseETag, ETag: d.ETag,
		CreatedAt: d.CreatedAt.String(), UpdatedAt: d.UpdatedAt.String(), UpdatedBy: d.UpdatedBy,
	}
	if d.BaseVersion != "" {
		out.BaseVersion = &d.BaseVersion
	}
	return out
}

// draftList is the list of a workspace's drafts, by flow.
func draftList(org string) string { return org + "#drafts" }

// room takes room for one more draft. Errors: errs.TooMany.
func (s *service) room(ctx context.Context) error {
	org := tenant.From(ctx).OrgID
	return s.store.Quota.Take(ctx, quota.Drafts, org, 1, func(ctx context.Context) (int64, error) {
		return table.Count(ctx, s.store.Table, table.Query{Index: table.ByList, PK: draftList(org)})
	})
}

// loadDraft reads a flow's draft and reports whether it has one.
func (s *service) loadDraft(ctx context.Context, flow string) (draft, bool, error) {
	d, err := table.Load[draft](ctx, s.store.Table, registry.DraftKey(tenant.From(ctx).OrgID, flow), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return draft{}, false, nil
	}
	if err != nil {
		return draft{}, false, fmt.Errorf("read draft: %w", err)
	}
	return d, true, nil
}

// putObject moves a large content to an object of its own and returns the new
// revision.
func (s *service) putObject(ctx context.Context, d *draft, data []byte) (revision string, err error) {
	revision = ids.New(s.store.Clock.Now())
	if len(data) <= registry.InlineBytes {
		return revision, nil
	}
	d.Content = ""
	if d.ObjectKey, err = blob.Key(tenant.From(ctx).OrgID, "drafts", d.FlowName, revision+".json"); err != nil {
		return "", fmt.Errorf("write draft: %w", err)
	}
	if _, err = blob.PutBytes(ctx, s.store.Blob, d.ObjectKey, data, blob.PutOptions{ContentType: "application/json"}); err != nil {
		return "", fmt.Errorf("write draft: %w", err)
	}
	return revision, nil
}

// dropObject removes an object that nothing refers to; a failure leaves it
// behind and is only logged.
func (s *service) dropObject(ctx context.Context, key string) {
	if key == "" {
		return
	}
	if err := s.store.Blob.Delete(ctx, key); err != nil && s.store.Log != nil {
		s.store.Log.WarnContext(ctx, "a draft's object was left behind", "key", key, "error", err)
	}
}
