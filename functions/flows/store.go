package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
)

// draft is a flow's draft as stored. Its content is in the item, or in an
// object if it is over registry.InlineBytes.
type draft struct {
	record.Meta
	table.ListEntries
	FlowName    string   `table:"flow_name"`
	BaseVersion string   `table:"base_version,omitempty"` // the version it was copied from
	BaseETag    string   `table:"base_etag"`              // of the copied content; an edited draft has another etag
	ETag        string   `table:"etag"`
	Size        int      `table:"size"` // bytes of the content as JSON
	Files       int      `table:"files"`
	Omitted     []string `table:"omitted,omitempty"` // files of the artifact that are not in the draft
	Content     string   `table:"content,omitempty"`
	ObjectKey   string   `table:"object_key,omitempty"`
}

// Audited returns the draft as audit entries show it: without the source.
func (d *draft) Audited() any {
	return map[string]any{
		"flow_name": d.FlowName, "base_version": d.BaseVersion, "etag": d.ETag, "size": d.Size, "files": d.Files,
	}
}

// drafts is the record kind of drafts, by flow.
var drafts = record.Kind{
	Folder: "drafts", In: table.ByList, Type: "flow_draft", Noun: "The draft of flow", Limit: quota.Drafts,
	At: registry.DraftKey,
}

func (d *draft) response(c content) DraftResponse {
	out := DraftResponse{
		FlowName: d.FlowName, FlowSpec: c.FlowSpec, Source: c.Source, OmittedFiles: append([]string{}, d.Omitted...),
		Edited: d.ETag != d.BaseETag, ETag: d.ETag,
		CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt, UpdatedBy: d.UpdatedBy,
	}
	if d.BaseVersion != "" {
		out.BaseVersion = &d.BaseVersion
	}
	return out
}

// fill sets the content of a draft and stores a large one in an object.
func (s *service) fill(ctx context.Context, d *draft, c content) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("write draft: %w", err)
	}
	d.L1PK, d.L1SK = s.drafts.Partition(ctx), d.FlowName
	d.Content, d.ObjectKey, d.Files = string(data), "", len(c.Source)
	if len(data) <= registry.InlineBytes {
		return nil
	}
	d.Content = ""
	d.ObjectKey, err = blob.Key(tenant.From(ctx).OrgID, "drafts", d.FlowName, ids.New(s.store.Clock.Now())+".json")
	if err == nil {
		_, err = blob.PutBytes(ctx, s.store.Blob, d.ObjectKey, data, blob.PutOptions{ContentType: "application/json"})
	}
	if err != nil {
		return fmt.Errorf("write draft: %w", err)
	}
	return nil
}

// contentOf returns the content of a draft. Errors: table.ErrConditionFailed if
// the draft was changed since it was read, and its object was deleted.
func (s *service) contentOf(ctx context.Context, d *draft) (content, error) {
	data := []byte(d.Content)
	if d.ObjectKey != "" {
		var err error
		if data, _, err = blob.GetBytes(ctx, s.store.Blob, d.ObjectKey, 2*MaxDraftBytes); errors.Is(err, blob.ErrNotFound) {
			if now, _, reading := s.drafts.Find(ctx, d.FlowName); reading == nil && now.ObjectKey != d.ObjectKey {
				err = table.ErrConditionFailed
			}
		}
		if err != nil {
			return content{}, fmt.Errorf("read draft: %w", err)
		}
	}
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return content{}, fmt.Errorf("read draft: %w", err)
	}
	return c, nil
}

// dropObject deletes an object that nothing refers to. A failure is only
// logged.
func (s *service) dropObject(ctx context.Context, key string) {
	if key == "" {
		return
	}
	if err := s.store.Blob.Delete(ctx, key); err != nil && s.store.Log != nil {
		s.store.Log.WarnContext(ctx, "a draft's object was left behind", "key", key, "error", err)
	}
}
