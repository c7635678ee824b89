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

// settings are those of the deployment.
func (in *CompleteUploadRequest) settings() registry.Settings {
	return registry.Settings{
		Environment: in.Environment, Namespace: in.Namespace, Status: in.Status, Schedule: in.Schedule, Timezone: in.Timezone,
		ExecutionMode: in.ExecutionMode, DefaultExecutor: in.DefaultExecutor, Tags: in.Tags, DepPackageSlugs: in.DepPackageSlugs,
	}
}
