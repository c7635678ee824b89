package flows

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
)

// MaxDraftBytes bounds a draft's content, as JSON.
const MaxDraftBytes = 3 << 20

const (
	maxDraftFiles = 1000
	maxFileName   = 512 // bytes
)

// content is what is edited.
type content struct {
	FlowSpec json.RawMessage   `json:"flow_spec"` // an object, or null
	Source   map[string]string `json:"source"`    // text by file name
}

// draftCreate makes the flow's draft, or returns the one that has been edited.
func (s *service) draftCreate(ctx context.Context, in *flowPath) (DraftResponse, error) {
	flow := in.FlowName
	old, found, err := s.loadDraft(ctx, flow)
	if err != nil {
		return DraftResponse{}, err
	}
	if found && old.ETag != old.BaseETag {
		return s.show(ctx, old)
	}
	fresh, next, err := s.fromLatest(ctx, flow)
	if err != nil {
		return DraftResponse{}, err
	}
	if found && old.ETag == next.ETag && old.BaseVersion == next.BaseVersion {
		return s.show(ctx, old)
	}
	next.BaseETag = next.ETag
	return s.saveDraft(ctx, old, found, next, fresh)
}

// fromLatest copies the latest version; without one the draft is empty.
func (s *service) fromLatest(ctx context.Context, flow string) (content, draft, error) {
	org := tenant.From(ctx).OrgID
	next := draft{FlowName: flow}
	fresh := content{FlowSpec: json.RawMessage("null"), Source: map[string]string{}}
	v, err := registry.Latest(ctx, s.store.Table, org, flow)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
	case err != nil:
		return fresh, next, err
	default:
		next.BaseVersion = v.FlowVersion
		if fresh.FlowSpec, err = registry.LoadSpec(ctx, s.store.Table, s.store.Blob, org, v.SpecHash); err != nil {
			return fresh, next, err
		}
		if fresh.Source, next.Omitted, err = s.sourceOf(ctx, v.ArtifactKey); err != nil {
			return fresh, next, err
		}
	}
	next.ETag, next.Size, err = fresh.seal()
	return fresh, next, err
}

// draftRead shows the draft. Errors: errs.NotFound.
func (s *service) draftRead(ctx context.Context, in *flowPath) (DraftResponse, error) {
	flow := in.FlowName
	d, found, err := s.loadDraft(ctx, flow)
	if err != nil {
		return DraftResponse{}, err
	}
	if !found {
		return DraftResponse{}, noDraft(flow)
	}
	return s.show(ctx, d)
}

// draftWrite changes the draft; what the body leaves out stays. Errors:
// errs.NotFound; errs.Conflict if the body's etag is not the draft's;
// errs.Unprocessable for a source that no artifact could hold.
func (s *service) draftWrite(ctx context.Context, req *draftIn) (DraftResponse, error) {
	flow, in := req.FlowName, &req.Body
	if err := in.check(); err != nil {
		return DraftResponse{}, err
	}
	old, found, err := s.loadDraft(ctx, flow)
	if err != nil {
		return DraftResponse{}, err
	}
	if !found {
		return DraftResponse{}, noDraft(flow)
	}
	if in.ETag != nil && *in.ETag != old.ETag {
		return DraftResponse{}, changedDraft(flow)
	}
	now, err := s.contentOf(ctx, old)
	if err != nil {
		return DraftResponse{}, err
	}
	if len(in.FlowSpec) > 0 {
		now.FlowSpec = in.FlowSpec
	}
	if in.Source != nil {
		now.Source = in.Source
	}
	next := old
	if next.ETag, next.Size, err = now.seal(); err != nil {
		return DraftResponse{}, err
	}
	if next.Size > MaxDraftBytes {
		return DraftResponse{}, errs.Field(errs.Body(), next.Size, "a draft has at most %d bytes", MaxDraftBytes)
	}
	if next.ETag == old.ETag {
		return s.show(ctx, old)
	}
	return s.saveDraft(ctx, old, true, next, now)
}

// saveDraft writes the draft over old. A large one goes to the object store
// under a name of its own first, so that a crash leaves the old one whole.
func (s *service) saveDraft(ctx context.Context, old draft, replace bool, next draft, c content) (DraftResponse, error) {
	p, now := tenant.From(ctx), s.store.Clock.Now()
	data, err := json.Marshal(c)
	if err != nil {
		return DraftResponse{}, fmt.Errorf("write draft: %w", err)
	}
	next.Key, next.UpdatedAt, next.UpdatedBy = registry.DraftKey(p.OrgID, next.FlowName), clock.ToMillis(now), p.Actor()
	next.Content, next.ObjectKey, next.CreatedAt, next.Files = string(data), "", old.CreatedAt, len(c.Source)
	next.L1PK, next.L1SK = draftList(p.OrgID), next.FlowName
	change := audit.Change{Action: "update", ResourceType: "flow_draft", ResourceID: next.FlowName, After: next.summary()}
	cond := table.IsNew()
	if replace {
		cond, change.Before = table.Eq("revision", old.Revision), old.summary()
	} else {
		if err := s.room(ctx); err != nil {
			return DraftResponse{}, err
		}
		next.CreatedAt, change.Action = next.UpdatedAt, "create"
	}
	if next.Revision, err = s.putObject(ctx, &next, data); err != nil {
		return DraftResponse{}, err
	}
	err = s.store.Table.Transact(ctx, table.Put{Item: next, If: cond}, audit.Entry(ctx, now, change))
	if errors.Is(err, table.ErrConditionFailed) || errors.Is(err, table.ErrConflict) {
		s.dropObject(ctx, next.ObjectKey)
		return DraftResponse{}, changedDraft(next.FlowName)
	}
	if err != nil { // it may have been written all the same, so its object stays
		return DraftResponse{}, fmt.Errorf("write draft: %w", err)
	}
	s.dropObject(ctx, old.ObjectKey)
	return next.response(c), nil
}

// show reads the draft's content.
func (s *service) show(ctx context.Context, d draft) (DraftResponse, error) {
	c, err := s.contentOf(ctx, d)
	return d.response(c), err
}

// seal returns the content's etag and its size in bytes.
func (c *content) seal() (string, int, error) {
	data, err := json.Marshal(c)
	if err != nil {
		return "", 0, errs.Field(errs.Body("flow_spec"), nil, "flow_spec is not JSON")
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16]), len(data), nil
}

// isObject reports whether JSON is an object or null.
func isObject(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) > 0 && (raw[0] == '{' || string(raw) == "null")
}

func noDraft(flow string) error {
	return errs.New(errs.NotFound, "Flow '%s' has no draft; POST /flows/%s/draft makes one", flow, flow)
}

func changedDraft(flow string) error {
	return errs.New(errs.Conflict, "The draft of flow '%s' was changed meanwhile; read it again", flow)
}

// contentOf reads what the draft holds.
func (s *service) contentOf(ctx context.Context, d draft) (content, error) {
	data := []byte(d.Content)
	if d.ObjectKey != "" {
		var err error
		if data, _, err = blob.GetBytes(ctx, s.store.Blob, d.ObjectKey, 2*MaxDraftBytes); err != nil {
			return content{}, fmt.Errorf("read draft: %w", err)
		}
	}
	var c content
	if err := json.Unmarshal(data, &c); err != nil {
		return content{}, fmt.Errorf("read draft: %w", err)
	}
	return c, nil
}

// check refuses what could not stand in an artifact.
func (in *DraftSourceRequest) check() error {
	var faults []errs.Detail
	bad := func(loc []any, input any, msg string) {
		faults = append(faults, errs.Detail{Type: "value_error", Loc: loc, Msg: msg, Input: input})
	}
	if len(in.FlowSpec) > 0 && !isObject(in.FlowSpec) {
		bad(errs.Body("flow_spec"), nil, "flow_spec is an object or null")
	}
	if len(in.Source) > maxDraftFiles {
		bad(errs.Body("source"), len(in.Source), "a draft has at most 1000 files")
		return errs.Validation(faults...)
	}
	for name := range in.Source {
		control := func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }
		if !fs.ValidPath(name) || name == "." || len(name) > maxFileName || strings.ContainsFunc(name, control) {
			bad(errs.Body("source"), name, "a file's name is a relative path without '..'")
		}
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	return nil
}
