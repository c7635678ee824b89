// Package registrytest registers flows, deployments and artifacts for tests,
// and makes writes of a table fail.
package registrytest

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/registry"
)

// Spec returns a flow_spec of one task that needs no code. Specs with different
// n differ.
func Spec(n int) string {
	return fmt.Sprintf(`{"parameters":{"type":"object","properties":{"day":{"type":"string"},"n":{"type":"integer"}},"required":["day"]},`+
		`"tasks":[{"name":"t","type":"transform","config":{"expression":"%d"}}]}`, n)
}

// PythonSpec is a flow_spec whose task is the function flow:main of an artifact.
const PythonSpec = `{"tasks":[{"name":"main","type":"python","entrypoint":"flow:main"}]}`

// As returns a context of an owner of the workspace.
func As(org string) context.Context {
	return tenant.With(context.Background(), tenant.Principal{OrgID: org, Email: "owner@" + org, Role: tenant.Owner})
}

// Store returns a registry's store.
func Store(t table.Table, b blob.Store, c clock.Clock) registry.Store {
	return registry.Store{Table: t, Blob: b, Clock: c}
}

// Register registers a version of a flow_spec (JSON), with an artifact key if
// it needs code.
func Register(t testing.TB, s registry.Store, org, flow, version, spec, artifactKey string) registry.Version {
	t.Helper()
	reg := &registry.Registration{
		FlowName: flow, FlowVersion: version, ArtifactKey: artifactKey, DefaultExecutor: "python", ExecutionMode: "nano",
	}
	require.NoError(t, reg.Parse(t.Context(), json.RawMessage(spec)))
	out, err := s.Commit(As(org), registry.Change{Register: reg, Audit: entry("register", "flow", flow)})
	require.NoError(t, err)
	return out.Version
}

// Deploy creates an active deployment, or changes the version and environment
// of an existing one.
func Deploy(t testing.TB, s registry.Store, org, name, flow, version, environment string) registry.Deployment {
	t.Helper()
	out, err := s.Commit(As(org), registry.Change{
		Deploy: &registry.Deploy{Name: name, Next: func(now *registry.Deployment) (registry.Deployment, error) {
			next := registry.Deployment{Status: registry.Active, ExecutionMode: "nano", DefaultExecutor: "python"}
			if now != nil {
				next = *now
			}
			next.FlowName, next.FlowVersion, next.Environment = flow, version, environment
			return next, nil
		}},
		Audit: entry("deploy", "deployment", name),
	})
	require.NoError(t, err)
	return *out.Deployment
}

func entry(action, kind, id string) func(registry.Outcome) audit.Change {
	return func(registry.Outcome) audit.Change {
		return audit.Change{Action: action, ResourceType: kind, ResourceID: id}
	}
}

// Zip returns a zip of files, given by name and text.
func Zip(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write([]byte(files[name]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return buf.Bytes()
}

// PutArtifact stores a zip as an artifact and returns its key.
func PutArtifact(t testing.TB, b blob.Store, org, flow, version string, files map[string]string) string {
	t.Helper()
	key, err := blob.Key(org, "artifacts", flow, version, "01TEST.zip")
	require.NoError(t, err)
	_, err = blob.PutBytes(context.Background(), b, key, Zip(t, files), blob.PutOptions{ContentType: "application/zip"})
	require.NoError(t, err)
	return key
}
