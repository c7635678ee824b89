package artifacts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tier"
	"millrace/shared/web/httpapi"
)

// complete assembles the parts, registers and deploys. If it is interrupted,
// the same request completes it: assembling may be repeated, and the rest is
// one transaction.
func (s *service) complete(ctx context.Context, req *completeIn) (CompleteUploadResponse, error) {
	in := &req.Body
	if _, err := registry.ArtifactKey(tenant.From(ctx).OrgID, in.ArtifactKey); err != nil {
		return CompleteUploadResponse{}, err
	}
	if err := in.check(s.store.Tiers); err != nil {
		return CompleteUploadResponse{}, err
	}
	digest, err := in.digest()
	if err != nil {
		return CompleteUploadResponse{}, err
	}
	for range attempts {
		u, err := s.owned(ctx, in.UploadID, in.ArtifactKey)
		if err != nil {
			return CompleteUploadResponse{}, err
		}
		switch u.State {
		case completed:
			return s.answered(ctx, u, digest)
		case aborted:
			// This call may have assembled the object after the abort deleted it.
			if err := s.store.Blob.Delete(ctx, u.ArtifactKey); err != nil {
				return CompleteUploadResponse{}, fmt.Errorf("remove aborted artifact: %w", err)
			}
			return CompleteUploadResponse{}, errs.New(errs.Conflict, "The upload was aborted; initiate a new one")
		case rejected:
			return CompleteUploadResponse{}, s.reject(ctx, u, u.Reason)
		}
		out, err := s.publish(ctx, u, in, digest)
		if !errors.Is(err, registry.ErrStale) && !errors.Is(err, blob.ErrNotFound) {
			return out, err
		}
		// The upload was ended meanwhile: its final state determines the response.
	}
	return CompleteUploadResponse{}, errs.New(errs.Conflict, "The uploaded artifact no longer exists; abort the upload and initiate a new one")
}

// check returns the errors of the request itself. Errors: errs.Unprocessable;
// errs.Invalid for an unsupported runtime.
func (in *CompleteUploadRequest) check(tiers tier.Set) error {
	faults := registry.CheckSchedule(in.Schedule, in.Timezone)
	slices.SortFunc(in.Parts, func(a, b CompletedPart) int { return cmp.Compare(a.PartNumber, b.PartNumber) })
	for i := range in.Parts {
		in.Parts[i].ETag = strings.Trim(in.Parts[i].ETag, `"`)
		if i > 0 && in.Parts[i].PartNumber == in.Parts[i-1].PartNumber {
			faults = append(faults, errs.Detail{
				Type: "value_error", Loc: errs.Body("parts"), Input: in.Parts[i].PartNumber, Msg: "a part is listed twice",
			})
		}
	}
	faults = append(faults, registry.CheckTags(errs.Body("tags"), in.Tags)...)
	faults = append(faults, registry.CheckSlugs(errs.Body("dep_package_slugs"), in.DepPackageSlugs)...)
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	if _, err := tiers.Parse(httpapi.Value(in.ExecutionMode)); err != nil {
		return err
	}
	_, err := registry.ParseExecutor(httpapi.Value(in.DefaultExecutor))
	return err
}

// digest returns a hash that identifies the request.
func (in *CompleteUploadRequest) digest() (string, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("digest completion: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// answered returns the response of a completed upload again, to the same
// request.
func (s *service) answered(ctx context.Context, u upload, digest string) (CompleteUploadResponse, error) {
	var out CompleteUploadResponse
	if u.Request != digest {
		return out, errs.New(errs.Conflict, "The upload was completed by another request; to change the deployment, use its own operations")
	}
	if err := json.Unmarshal([]byte(u.Answer), &out); err != nil {
		return out, fmt.Errorf("read completion: %w", err)
	}
	return out, s.dropUnused(ctx, u, out)
}

// dropUnused deletes an artifact whose version was registered before with the
// same code.
func (s *service) dropUnused(ctx context.Context, u upload, out CompleteUploadResponse) error {
	if out.ArtifactStoreURI == registry.ArtifactURI(u.ArtifactKey) {
		return nil
	}
	if err := s.store.Blob.Delete(ctx, u.ArtifactKey); err != nil {
		return fmt.Errorf("remove unused artifact: %w", err)
	}
	return nil
}

// publish executes a completion. Errors: registry.ErrStale if the upload was
// ended meanwhile.
func (s *service) publish(ctx context.Context, u upload, in *CompleteUploadRequest, digest string) (CompleteUploadResponse, error) {
	var out CompleteUploadResponse
	if in.FlowName != u.FlowName || in.FlowVersion != u.FlowVersion {
		return out, errs.Field(errs.Body("flow_version"), in.FlowVersion, "the upload was initiated for flow '%s' version '%s'", u.FlowName, u.FlowVersion)
	}
	reg := &registry.Registration{
		FlowName: u.FlowName, FlowVersion: u.FlowVersion, ArtifactKey: u.ArtifactKey, CodeHash: httpapi.Value(in.CodeHash),
		Tags: in.Tags, DepPackageSlugs: in.DepPackageSlugs, CodeOnly: true,
		Kinds: s.store.Kinds,
	}
	size, _ := s.store.Tiers.Parse(httpapi.Value(in.ExecutionMode)) // both are checked
	reg.ExecutionMode = string(size)
	reg.DefaultExecutor, _ = registry.ParseExecutor(httpapi.Value(in.DefaultExecutor))
	if in.hasSpec() { // reports its errors while parts can still be sent
		if err := reg.Parse(ctx, json.RawMessage(in.FlowSpec)); err != nil {
			return out, err
		}
	}
	if err := s.assemble(ctx, u, in, reg); err != nil {
		return out, err
	}
	_, err := s.store.Commit(ctx, registry.Change{
		Register: reg,
		Deploy:   &registry.Deploy{Name: in.DeploymentName, Next: reg.Deployment(in.settings())},
		Also: func(o registry.Outcome) []table.Write {
			out = response(o)
			answer, _ := json.Marshal(out) // strings and numbers
			outcome := []table.Action{table.Set("request", digest), table.Set("answer", string(answer))}
			if o.Version.ArtifactKey != u.ArtifactKey { // registered before with the same code: dropUnused
				return []table.Write{u.to(completed, s.store.Clock.Now(), outcome...)}
			}
			return []table.Write{u.keep(outcome...)}
		},
		Audit: func(o registry.Outcome) audit.Change {
			c := audit.Change{
				Action: "deploy", ResourceType: "deployment", ResourceID: in.DeploymentName, After: o.Deployment.View(),
				Metadata: map[string]any{"artifact_key": u.ArtifactKey, "registered": o.Registered, "version": o.Version.View()},
			}
			if o.Before != nil {
				c.Before = o.Before.View()
			}
			return c
		},
	})
	if err != nil {
		return CompleteUploadResponse{}, err
	}
	return out, s.dropUnused(ctx, u, out)
}

// assemble assembles the parts, checks the zip, and reads from it what the
// request does not have: flow_spec and code hash.
func (s *service) assemble(ctx context.Context, u upload, in *CompleteUploadRequest, reg *registry.Registration) error {
	parts := make([]blob.Part, len(in.Parts))
	for i, p := range in.Parts {
		parts[i] = blob.Part{Number: p.PartNumber, ETag: p.ETag}
	}
	_, err := s.store.Blob.CompleteMultipart(ctx, u.ArtifactKey, u.UploadID, parts)
	if errors.Is(err, blob.ErrBadPart) || errors.Is(err, blob.ErrNoUpload) {
		// A concurrent abort may be deleting the parts.
		if now, _, loadErr := s.load(ctx, u.ArtifactKey); loadErr != nil || now.State != open {
			return cmp.Or(loadErr, registry.ErrStale)
		}
	}
	switch {
	case errors.Is(err, blob.ErrBadPart):
		return errs.Field(errs.Body("parts"), nil, "a part was not uploaded, has another ETag, or is smaller than 5 MiB and not the last")
	case errors.Is(err, blob.ErrNoUpload):
		return errs.New(errs.Conflict, "The upload no longer exists, or was assembled from other parts; abort it and initiate a new one")
	case err != nil:
		return fmt.Errorf("complete upload: %w", err)
	}
	obj, err := s.store.Blob.Head(ctx, u.ArtifactKey)
	if err != nil {
		return fmt.Errorf("complete upload: %w", err)
	}
	if obj.Size != u.SizeBytes {
		return s.reject(ctx, u, fmt.Sprintf("the parts have %d bytes in total, not %d as announced", obj.Size, u.SizeBytes))
	}
	zip := blob.NewReaderAt(ctx, s.store.Blob, u.ArtifactKey, obj.Size)
	files, err := sandbox.Names(zip, obj.Size)
	if err != nil {
		if invalid, ok := errors.AsType[*errs.Error](err); ok && len(invalid.Details) > 0 {
			return s.reject(ctx, u, invalid.Details[0].Msg)
		}
		return fmt.Errorf("check artifact: %w", err)
	}
	if reg.Flow == nil {
		spec, err := specIn(zip, obj.Size)
		if err != nil {
			return err
		}
		if err := reg.Parse(ctx, spec); err != nil {
			return err
		}
	}
	if faults := missingModules(reg.Flow, files); len(faults) > 0 {
		return errs.Validation(faults...)
	}
	if reg.CodeHash == "" {
		reg.CodeHash, err = s.hash(ctx, u.ArtifactKey)
	}
	return err
}

// reject ends an upload whose artifact is invalid, deletes it and returns the
// 422 error.
func (s *service) reject(ctx context.Context, u upload, reason string) error {
	if u.State == open {
		_, err := s.store.Table.Update(ctx, u.to(rejected, s.store.Clock.Now(), table.Set("reason", reason)))
		if errors.Is(err, table.ErrConditionFailed) {
			return registry.ErrStale
		}
		if err != nil {
			return fmt.Errorf("reject artifact: %w", err)
		}
	}
	if err := s.store.Blob.Delete(ctx, u.ArtifactKey); err != nil {
		return fmt.Errorf("remove rejected artifact: %w", err)
	}
	return errs.Field(errs.Body("artifact_key"), u.ArtifactKey, "%s", reason)
}

func response(o registry.Outcome) CompleteUploadResponse {
	return CompleteUploadResponse{
		ArtifactStoreURI: registry.ArtifactURI(o.Version.ArtifactKey), FlowName: o.Version.FlowName, FlowVersion: o.Version.FlowVersion,
		DeploymentName: o.Deployment.Name, CodeHash: o.Version.CodeHash,
		DeploymentVersion: o.Deployment.DeploymentVersion, Environment: o.Deployment.Environment,
		EnvironmentCreated: o.NewEnvironment, ScheduleID: o.Deployment.View().ScheduleID, NextRunEpoch: o.NextRun(),
	}
}
