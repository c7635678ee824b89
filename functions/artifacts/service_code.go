package artifacts

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"millrace/shared/platform/errs"
	"millrace/shared/run/registry"
)

// specFile is the name of the flow_spec within a zip.
const specFile = "flow_spec.json"

// hasSpec reports whether the request has a flow_spec.
func (in *CompleteUploadRequest) hasSpec() bool {
	raw := bytes.TrimSpace(in.FlowSpec)
	return len(raw) > 0 && string(raw) != "null"
}

// specIn reads flow_spec.json of a checked zip. Errors: errs.Unprocessable if
// it is missing or unreadable.
func specIn(r io.ReaderAt, size int64) (json.RawMessage, error) {
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	file, err := archive.Open(specFile)
	if err != nil {
		return nil, errs.Validation(errs.Detail{
			Type: "missing", Loc: errs.Body("flow_spec"), Msg: "neither the request nor the artifact (" + specFile + ") has a flow_spec",
		})
	}
	defer func() { _ = file.Close() }()
	spec, err := io.ReadAll(io.LimitReader(file, registry.MaxSpecBytes+1))
	switch {
	case damaged(err):
		return nil, errs.Field(errs.Body("flow_spec"), nil, "%s is damaged in the artifact", specFile)
	case err != nil:
		return nil, fmt.Errorf("read artifact: %w", err)
	case len(spec) > registry.MaxSpecBytes:
		return nil, errs.Field(errs.Body("flow_spec"), nil, "%s has more than 4 MB", specFile)
	}
	return spec, nil
}

// damaged distinguishes an error of the zip from one of the store.
func damaged(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, zip.ErrChecksum) || errors.Is(err, zip.ErrFormat) || errors.Is(err, io.ErrUnexpectedEOF)
}

// hash returns the hex SHA-256 of an artifact.
func (s *service) hash(ctx context.Context, key string) (string, error) {
	body, _, err := s.store.Blob.Get(ctx, key, nil)
	if err != nil {
		return "", fmt.Errorf("hash artifact: %w", err)
	}
	defer body.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, body); err != nil {
		return "", fmt.Errorf("hash artifact: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// deployment returns a function that sets a deployment's fields: a new one has
// the registration's runtime and the defaults; an existing one keeps the fields
// that the request does not set.
func (in *CompleteUploadRequest) deployment(reg *registry.Registration) func(*registry.Deployment) (registry.Deployment, error) {
	return func(now *registry.Deployment) (registry.Deployment, error) {
		next := registry.Deployment{
			Environment: registry.DefaultEnvironment, Status: registry.Active,
			ExecutionMode: reg.ExecutionMode, DefaultExecutor: reg.DefaultExecutor,
		}
		if now != nil {
			next = *now
		}
		next.FlowName, next.FlowVersion = reg.FlowName, reg.FlowVersion
		if in.ExecutionMode != nil {
			next.ExecutionMode = reg.ExecutionMode
		}
		if in.DefaultExecutor != nil {
			next.DefaultExecutor = reg.DefaultExecutor
		}
		for field, value := range map[*string]*string{
			&next.Environment: in.Environment, &next.Namespace: in.Namespace, &next.Status: in.Status,
			&next.Schedule: in.Schedule, &next.Timezone: in.Timezone,
		} {
			if value != nil {
				*field = *value
			}
		}
		if in.Tags != nil {
			next.Tags = in.Tags
		}
		if in.DepPackageSlugs != nil {
			next.DepPackageSlugs = in.DepPackageSlugs
		}
		return next, nil
	}
}
