package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
	"millrace/shared/run/sandbox"
	"millrace/shared/web/httpapi"
)

// service implements the rules of flows.
type service struct {
	store   registry.Store
	drafts  record.Set[draft, *draft]
	cursors httpapi.Cursors
}

// register registers a version, or checks one. Errors: errs.Forbidden for an artifact of
// another workspace, errs.Unprocessable with an entry per fault, errs.Invalid
// for an unsupported runtime, errs.Conflict for other content.
func (s *service) register(ctx context.Context, req *registerIn) (FlowRegisterResponse, error) {
	in := &req.Body
	if err := in.checkDeployment(); err != nil {
		return FlowRegisterResponse{}, err
	}
	reg := &registry.Registration{
		FlowName: in.FlowName, FlowVersion: in.FlowVersion, CodeHash: orEmpty(in.CodeHash),
		Description: orEmpty(in.Description), Tags: in.Tags, Kinds: s.store.Kinds,
	}
	org := tenant.From(ctx).OrgID
	reg.Unuploaded = in.DryRun && orEmpty(in.ArtifactStoreURI) == ""
	if uri := orEmpty(in.ArtifactStoreURI); uri != "" {
		key, err := registry.ArtifactKey(org, uri)
		if err != nil {
			return FlowRegisterResponse{}, err
		}
		reg.ArtifactKey = key
	}
	if err := reg.Parse(ctx, json.RawMessage(in.FlowSpec)); err != nil {
		return FlowRegisterResponse{}, err
	}
	if err := s.runtime(reg, in); err != nil {
		return FlowRegisterResponse{}, err
	}
	if err := s.artifact(ctx, reg.ArtifactKey); err != nil {
		return FlowRegisterResponse{}, err
	}
	if in.DryRun {
		return s.check(ctx, in, reg)
	}
	out, err := s.store.Commit(ctx, registry.Change{Register: reg, Audit: func(o registry.Outcome) audit.Change {
		return audit.Change{
			Action: "register", ResourceType: "flow", ResourceID: o.Version.FlowName, After: o.Version.View(),
			Metadata: map[string]any{"flow_version": o.Version.FlowVersion},
		}
	}})
	return FlowRegisterResponse{VersionView: out.Version.View()}, err
}

// runtime sets executor and tier.
func (s *service) runtime(reg *registry.Registration, in *FlowRegisterRequest) error {
	executor, err := registry.ParseExecutor(orEmpty(in.DefaultExecutor))
	if err != nil {
		return err
	}
	size, err := s.store.Tiers.Parse(orEmpty(in.ExecutionMode))
	if err != nil {
		return err
	}
	reg.DefaultExecutor, reg.ExecutionMode = executor, string(size)
	return nil
}

// artifact checks that the code exists and is a valid zip.
func (s *service) artifact(ctx context.Context, key string) error {
	if key == "" {
		return nil
	}
	obj, err := s.store.Blob.Head(ctx, key)
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrKey) {
		return errs.Field(errs.Body("artifact_store_uri"), registry.ArtifactURI(key), "nothing has been uploaded there")
	}
	if err != nil {
		return fmt.Errorf("look up artifact: %w", err)
	}
	return sandbox.Check(blob.NewReaderAt(ctx, s.store.Blob, key, obj.Size), obj.Size)
}

// list lists flows page by page. Errors: errs.Invalid for a bad cursor.
func (s *service) list(ctx context.Context, in *listQuery) (FlowListResponse, error) {
	org := tenant.From(ctx).OrgID
	heads, next, err := httpapi.ReadPage(ctx, s.cursors, in, func(after string) ([]registry.Head, string, error) {
		if in.Environment == "" {
			return registry.ListFlows(ctx, s.store.Table, org, after, in.Limit)
		}
		return registry.ListFlowsIn(ctx, s.store.Table, org, in.Environment, after, in.Limit)
	})
	if err != nil {
		return FlowListResponse{}, err
	}
	out := FlowListResponse{make([]registry.FlowView, len(heads)), next}
	for i := range heads {
		out.Items[i] = heads[i].View()
	}
	return out, nil
}

// latest returns the newest version. Errors: errs.NotFound.
func (s *service) latest(ctx context.Context, in *flowPath) (FlowDetailResponse, error) {
	return s.detail(ctx, in.FlowName, "")
}

// version returns a version. Errors: errs.NotFound.
func (s *service) version(ctx context.Context, in *versionPath) (FlowDetailResponse, error) {
	return s.detail(ctx, in.FlowName, in.FlowVersion)
}

// detail returns a version, the latest if version is empty. Errors:
// errs.NotFound.
func (s *service) detail(ctx context.Context, flow, version string) (FlowDetailResponse, error) {
	org := tenant.From(ctx).OrgID
	head, err := registry.GetFlow(ctx, s.store.Table, org, flow)
	if err != nil {
		return FlowDetailResponse{}, err
	}
	if version == "" {
		version = head.LatestVersion
	}
	v, err := registry.GetVersion(ctx, s.store.Table, org, flow, version)
	if err != nil {
		return FlowDetailResponse{}, err
	}
	spec, err := registry.LoadSpec(ctx, s.store.Table, s.store.Blob, org, v.SpecHash)
	if err != nil {
		return FlowDetailResponse{}, err
	}
	parsed, err := registry.LoadFlow(ctx, s.store.Table, s.store.Blob, org, v.SpecHash)
	if err != nil {
		return FlowDetailResponse{}, err
	}
	return FlowDetailResponse{
		VersionView: v.View(), IsLatest: v.FlowVersion == head.LatestVersion, FlowSpec: flowSpec(spec), Tasks: summaries(parsed),
	}, nil
}

// versions lists all versions. Errors: errs.NotFound.
func (s *service) versions(ctx context.Context, in *flowPath) (FlowVersionListResponse, error) {
	head, all, err := registry.Versions(ctx, s.store.Table, tenant.From(ctx).OrgID, in.FlowName)
	if err != nil {
		return FlowVersionListResponse{}, err
	}
	out := FlowVersionListResponse{Items: make([]FlowVersionItem, len(all))}
	for i := range all {
		out.Items[i] = FlowVersionItem{all[i].View(), all[i].FlowVersion == head.LatestVersion}
	}
	return out, nil
}

// delete deletes a flow with its draft. Errors: errs.NotFound; errs.Conflict if
// it has dependents.
func (s *service) delete(ctx context.Context, in *flowPath) (DeletedFlow, error) {
	flow := in.FlowName
	old, _, err := s.drafts.Find(ctx, flow)
	if err != nil {
		return DeletedFlow{}, err
	}
	head, err := s.store.DeleteFlow(ctx, flow, table.Delete{Key: s.drafts.Key(ctx, flow)})
	if err != nil {
		return DeletedFlow{}, err
	}
	s.dropObject(ctx, old.ObjectKey)
	return DeletedFlow{Status: "deleted", FlowName: flow, DeletedVersions: head.Versions}, nil
}

func orEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
