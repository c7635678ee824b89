package registry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
)

const org = "org_a"

func open(t *testing.T) registry.Store {
	t.Helper()
	env := localtest.New(t)
	return registrytest.Store(env.Deps.Table, env.Deps.Blob, env.Clock)
}

// large is a flow_spec over registry.InlineBytes.
func large() string {
	return `{"tasks":[{"name":"t","type":"transform","description":"` + strings.Repeat("d", 40<<10) + `","config":{"expression":"1"}}]}`
}

func TestLargeSpecsAreStoredAsObjects(t *testing.T) {
	t.Parallel()
	s := open(t)
	small := registrytest.Register(t, s, org, "small", "1", registrytest.Spec(1), "")
	big := registrytest.Register(t, s, org, "big", "1", large(), "")
	objects, _, err := s.Blob.List(t.Context(), org+"/specs/", "", 0)
	require.NoError(t, err)
	require.Len(t, objects, 1)
	assert.Contains(t, objects[0].Key, big.SpecHash)
	for _, v := range []registry.Version{small, big} {
		for range 2 { // loaded, then cached
			flow, err := registry.LoadFlow(t.Context(), s.Table, s.Blob, org, v.SpecHash)
			require.NoError(t, err)
			assert.Equal(t, "t", flow.Tasks[0].Name)
			assert.Equal(t, v.SpecHash, flow.Hash())
			same, plan, err := registry.LoadPlan(t.Context(), s.Table, s.Blob, org, v.SpecHash, engine.PlanVersion)
			require.NoError(t, err)
			assert.Same(t, flow, same)
			_, again, err := registry.LoadPlan(t.Context(), s.Table, s.Blob, org, v.SpecHash, engine.PlanVersion)
			require.NoError(t, err)
			assert.Same(t, plan, again)
			_, _, err = registry.LoadPlan(t.Context(), s.Table, s.Blob, org, v.SpecHash, engine.PlanVersion+1)
			require.Error(t, err)
		}
	}
	_, err = registry.LoadFlow(t.Context(), s.Table, s.Blob, "org_b", small.SpecHash)
	assert.Equal(t, errs.Internal, errs.CodeOf(err), "a spec of another workspace is not there, nor kept under this one")
}

func TestSpecsRemainAfterDeletionOfFlow(t *testing.T) {
	t.Parallel()
	s := open(t)
	v := registrytest.Register(t, s, org, "etl", "1", large(), "")
	_, err := s.DeleteFlow(registrytest.As(org), "etl")
	require.NoError(t, err)
	raw, err := registry.LoadSpec(t.Context(), s.Table, s.Blob, org, v.SpecHash)
	require.NoError(t, err)
	assert.JSONEq(t, large(), string(raw))
}

func TestNamesWithSeparatorsAreNotFound(t *testing.T) {
	t.Parallel()
	s := open(t)
	registrytest.Register(t, s, org, "etl", "1", registrytest.Spec(1), "")
	for _, name := range []string{"", "etl#1", "../etl", "etl\x00", strings.Repeat("a", 129), "é"} {
		_, err := registry.GetVersion(t.Context(), s.Table, org, name, "1")
		assert.Equal(t, errs.NotFound, errs.CodeOf(err), name)
		_, err = registry.GetVersion(t.Context(), s.Table, org, "etl", name)
		assert.Equal(t, errs.NotFound, errs.CodeOf(err), name)
		_, err = registry.GetDeployment(t.Context(), s.Table, org, name)
		assert.Equal(t, errs.NotFound, errs.CodeOf(err), name)
		_, err = registry.Latest(t.Context(), s.Table, org, name)
		assert.Equal(t, errs.NotFound, errs.CodeOf(err), name)
	}
}

func TestConcurrentRegistrationsAreAllStoredInOrder(t *testing.T) {
	t.Parallel()
	s := open(t)
	const n = 20
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { registrytest.Register(t, s, org, "etl", fmt.Sprint(i), registrytest.Spec(i), "") })
	}
	wg.Wait()
	head, all, err := registry.Versions(t.Context(), s.Table, org, "etl")
	require.NoError(t, err)
	require.Len(t, all, n)
	assert.Equal(t, n, head.Versions)
	assert.Equal(t, all[0].FlowVersion, head.LatestVersion)
	for i, v := range all {
		assert.Equal(t, n-i, v.Seq, "gapless, newest first")
	}
}

// TestConcurrentDependentAndDeletion adds a dependent, such as a sensor, in its
// own transaction while the flow is being deleted: one of the two must fail.
func TestConcurrentDependentAndDeletion(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i := range 30 {
		flow := fmt.Sprint("flow", i)
		registrytest.Register(t, s, org, flow, "1", registrytest.Spec(i), "")
		head, err := registry.GetFlow(t.Context(), s.Table, org, flow)
		require.NoError(t, err)
		var dependErr, deleteErr error
		var wg sync.WaitGroup
		wg.Go(func() {
			dependErr = s.Table.Transact(context.Background(), registry.Depend(head, "sensor", "s1", 1)...)
		})
		wg.Go(func() { _, deleteErr = s.DeleteFlow(registrytest.As(org), flow) })
		wg.Wait()
		require.NotEqual(t, dependErr == nil, deleteErr == nil, "depend: %v, delete: %v", dependErr, deleteErr)
		if dependErr == nil {
			assert.ErrorContains(t, deleteErr, "sensor 's1'")
			require.NoError(t, s.Table.Transact(t.Context(), registry.Release(org, flow, "sensor", "s1")))
			_, err := s.DeleteFlow(registrytest.As(org), flow)
			require.NoError(t, err)
		}
	}
}

func TestConflictNamesFirstDependents(t *testing.T) {
	t.Parallel()
	s := open(t)
	registrytest.Register(t, s, org, "etl", "1", registrytest.Spec(1), "")
	for i := range 30 {
		registrytest.Deploy(t, s, org, fmt.Sprintf("d%02d", i), "etl", "1", "prod")
	}
	_, err := s.DeleteFlow(registrytest.As(org), "etl")
	require.Equal(t, errs.Conflict, errs.CodeOf(err))
	assert.Contains(t, err.Error(), "deployment 'd00', deployment 'd01'")
	assert.Contains(t, err.Error(), "and more")
	assert.NotContains(t, err.Error(), "d25")
}

func TestFailedConditionOfFurtherWriteIsErrStale(t *testing.T) {
	t.Parallel()
	s := open(t)
	reg := &registry.Registration{FlowName: "etl", FlowVersion: "1", DefaultExecutor: "python", ExecutionMode: "nano"}
	require.NoError(t, reg.Parse(t.Context(), json.RawMessage(registrytest.Spec(1))))
	_, err := s.Commit(registrytest.As(org), registry.Change{
		Register: reg,
		Also: func(registry.Outcome) []table.Write {
			return []table.Write{table.Check{Key: table.Key{PK: org + "#none", SK: "x"}, If: table.IsStored()}}
		},
		Audit: func(registry.Outcome) audit.Change { return audit.Change{Action: "x"} },
	})
	require.ErrorIs(t, err, registry.ErrStale)
	_, err = registry.GetFlow(t.Context(), s.Table, org, "etl")
	assert.Equal(t, errs.NotFound, errs.CodeOf(err))
}

// TestRegistryFollowsItsModel compares reads with a model after random
// registrations, deployments, roll-backs, deletions and re-creations.
func TestRegistryFollowsItsModel(t *testing.T) {
	t.Parallel()
	s := open(t)
	workspaces := 0
	rapid.Check(t, func(t *rapid.T) {
		workspaces++
		org := fmt.Sprint("org_", workspaces)
		ctx := registrytest.As(org)
		flows := map[string][]string{} // versions, oldest first
		deployed := map[string][3]string{}
		changes := map[string]int{}
		flow, version := rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"1", "2", "3"})
		name, place := rapid.SampledFrom([]string{"x", "y", "z"}), rapid.SampledFrom([]string{"dev", "prod"})
		has := func(f, v string) bool { return bytes.Contains([]byte(strings.Join(flows[f], ",")), []byte(v)) }
		entry := func(registry.Outcome) audit.Change {
			return audit.Change{Action: "x", ResourceType: "y", ResourceID: "z"}
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				f, v := flow.Draw(t, "flow"), version.Draw(t, "version")
				reg := &registry.Registration{FlowName: f, FlowVersion: v, DefaultExecutor: "python", ExecutionMode: "nano"}
				require.NoError(t, reg.Parse(t.Context(), json.RawMessage(registrytest.Spec(1))))
				out, err := s.Commit(ctx, registry.Change{Register: reg, Audit: entry})
				require.NoError(t, err)
				require.Equal(t, !has(f, v), out.Registered)
				if out.Registered {
					flows[f] = append(flows[f], v)
				}
			},
			"deploy": func(t *rapid.T) {
				n, f, v, e := name.Draw(t, "name"), flow.Draw(t, "flow"), version.Draw(t, "version"), place.Draw(t, "place")
				_, err := s.Commit(ctx, registry.Change{Audit: entry, Deploy: &registry.Deploy{Name: n, Next: func(*registry.Deployment) (registry.Deployment, error) {
					return registry.Deployment{FlowName: f, FlowVersion: v, Environment: e, Status: registry.Active}, nil
				}}})
				if !has(f, v) {
					require.Equal(t, errs.NotFound, errs.CodeOf(err))
					return
				}
				require.NoError(t, err)
				if want := [3]string{f, v, e}; deployed[n] != want {
					deployed[n] = want
					changes[n]++
				}
			},
			"undeploy": func(t *rapid.T) {
				n := name.Draw(t, "name")
				err := s.DeleteDeployment(ctx, n)
				if _, there := deployed[n]; !there {
					require.Equal(t, errs.NotFound, errs.CodeOf(err))
					return
				}
				require.NoError(t, err)
				delete(deployed, n)
				delete(changes, n)
			},
			"delete": func(t *rapid.T) {
				f := flow.Draw(t, "flow")
				_, err := s.DeleteFlow(ctx, f)
				want := errs.Code("")
				for _, d := range deployed {
					if d[0] == f {
						want = errs.Conflict
					}
				}
				if len(flows[f]) == 0 {
					want = errs.NotFound
				}
				require.Equal(t, want, errs.CodeOf(err))
				if err == nil {
					delete(flows, f)
				}
			},
			"": func(t *rapid.T) {
				for _, f := range []string{"a", "b"} {
					latest, err := registry.Latest(ctx, s.Table, org, f)
					if len(flows[f]) == 0 {
						require.Equal(t, errs.NotFound, errs.CodeOf(err))
						continue
					}
					require.NoError(t, err)
					require.Equal(t, flows[f][len(flows[f])-1], latest.FlowVersion)
					_, all, err := registry.Versions(ctx, s.Table, org, f)
					require.NoError(t, err)
					require.Len(t, all, len(flows[f]))
				}
				for _, e := range []string{"dev", "prod"} {
					inFlows, inDeployments := map[string]bool{}, 0
					for _, d := range deployed {
						if d[2] == e {
							inFlows[d[0]] = true
							inDeployments++
						}
					}
					heads, next, err := registry.ListFlowsIn(ctx, s.Table, org, e, "", 10)
					require.NoError(t, err)
					require.Empty(t, next)
					require.Len(t, heads, len(inFlows))
					list, next, err := s.Deployments(ctx, e, "", 10)
					require.NoError(t, err)
					require.Empty(t, next)
					require.Len(t, list, inDeployments)
				}
				for n, want := range deployed {
					d, err := registry.GetDeployment(ctx, s.Table, org, n)
					require.NoError(t, err)
					require.Equal(t, want, [3]string{d.FlowName, d.FlowVersion, d.Environment})
					require.Equal(t, changes[n], d.DeploymentVersion)
				}
			},
		})
	})
	assert.Positive(t, workspaces)
}

func TestArtifactKeysStayInTheirWorkspace(t *testing.T) {
	t.Parallel()
	key, err := registry.ArtifactKey(org, registry.ArtifactURI(org+"/artifacts/f/1/x.zip"))
	require.NoError(t, err)
	assert.Equal(t, org+"/artifacts/f/1/x.zip", key)
	for _, foreign := range []string{"", "x", "org_b/artifacts/f/1/x.zip", org + "/artifacts/../../x", org + "/specs/f/1/x.zip", filepath.Join("/", org, "artifacts/f/1/x.zip")} {
		_, err := registry.ArtifactKey(org, foreign)
		assert.Equal(t, errs.Forbidden, errs.CodeOf(err), foreign)
	}
}
