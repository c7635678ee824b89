package flows

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"strings"

	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
)

// MaxDraftBytes is the largest content of a draft, as JSON.
const MaxDraftBytes = 3 << 20

const (
	maxDraftFiles = 1000
	maxFileName   = 512 // bytes
)

// content is the editable part of a draft.
type content struct {
	FlowSpec json.RawMessage   `json:"flow_spec"` // an object, or null
	Source   map[string]string `json:"source"`    // text by file name
}

// draftCreate creates the flow's draft, or returns the existing one.
func (s *service) draftCreate(ctx context.Context, in *flowPath) (DraftResponse, error) {
	return s.saveDraft(ctx, in.FlowName, func(now *draft) (draft, content, error) {
		if now != nil && now.ETag != now.BaseETag {
			return *now, content{}, nil
		}
		fresh, next, err := s.fromLatest(ctx, in.FlowName)
		if err != nil || now != nil && now.ETag == next.ETag && now.BaseVersion == next.BaseVersion {
			return *cmp.Or(now, &next), fresh, err
		}
		next.BaseETag = next.ETag
		return next, fresh, nil
	})
}

// fromLatest copies the latest version. Without one the draft is empty.
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

// draftRead returns the draft. Errors: errs.NotFound.
func (s *service) draftRead(ctx context.Context, in *flowPath) (out DraftResponse, err error) {
	err = record.Retry(ctx, "the draft", func() error {
		d, found, err := s.drafts.Find(ctx, in.FlowName)
		switch {
		case err != nil:
			return err
		case !found:
			return noDraft(in.FlowName)
		}
		c, err := s.contentOf(ctx, &d)
		out = d.response(c)
		return err
	})
	return out, err
}

// draftWrite changes the fields of the draft that the body contains. Errors:
// errs.NotFound; errs.Conflict if the body's etag is not the draft's;
// errs.Unprocessable for a source that no artifact could contain.
func (s *service) draftWrite(ctx context.Context, req *draftIn) (DraftResponse, error) {
	flow, in := req.FlowName, &req.Body
	if err := in.check(); err != nil {
		return DraftResponse{}, err
	}
	return s.saveDraft(ctx, flow, func(old *draft) (next draft, now content, err error) {
		switch {
		case old == nil:
			return next, now, noDraft(flow)
		case in.ETag != nil && *in.ETag != old.ETag:
			return next, now, errs.New(errs.Conflict, "The draft of flow '%s' was changed meanwhile; read it again", flow)
		}
		if now, err = s.contentOf(ctx, old); err != nil {
			return next, now, err
		}
		if len(in.FlowSpec) > 0 {
			now.FlowSpec = in.FlowSpec
		}
		if in.Source != nil {
			now.Source = in.Source
		}
		next = *old
		if next.ETag, next.Size, err = now.seal(); err == nil && next.Size > MaxDraftBytes {
			err = errs.Field(errs.Body(), next.Size, "a draft has at most %d bytes", MaxDraftBytes)
		}
		return next, now, err
	})
}

// saveDraft replaces a flow's draft by the result of edit, which gets the
// current one, nil if there is none. A draft with the same etag and base is not
// written. A large content is stored first, in an object with a new name, so
// that a crash leaves the old content intact.
func (s *service) saveDraft(ctx context.Context, flow string, edit func(now *draft) (draft, content, error)) (DraftResponse, error) {
	var c content
	var written string // object of the last attempt
	out, err := s.drafts.Write(ctx, flow, record.Change[draft]{Next: func(now *draft) (draft, error) {
		s.dropObject(ctx, written) // a concurrent edit was first
		written = ""
		next, edited, err := edit(now)
		if err != nil {
			return next, err
		}
		if now != nil && now.ETag == next.ETag && now.BaseVersion == next.BaseVersion {
			c, err = s.contentOf(ctx, now)
			return *now, err
		}
		err = s.fill(ctx, &next, edited)
		c, written = edited, next.ObjectKey
		return next, err
	}})
	switch code := errs.CodeOf(err); {
	case code == errs.TooMany || code == errs.Conflict:
		s.dropObject(ctx, written)
	case err != nil: // the write may have succeeded, so its object is kept
	case out.Changed:
		s.dropObject(ctx, out.Before.ObjectKey)
	}
	return out.After.response(c), err
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

// check rejects files that an artifact could not contain.
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
