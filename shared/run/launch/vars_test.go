package launch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry"
	"millrace/shared/run/registry/registrytest"
	"millrace/shared/run/runstate"
)

// inProd makes the environment prod with the variable REGION.
func (k *keys) inProd(region string) registry.Store {
	k.t.Helper()
	s := registrytest.Store(k.store, k.objects, clock.System{})
	_, err := s.CreateEnvironment(registrytest.As(org), registry.Environment{Name: "prod"})
	require.NoError(k.t, err)
	k.setRegion(s, region)
	return s
}

func (k *keys) setRegion(s registry.Store, region string) {
	k.t.Helper()
	_, err := s.ChangeVariables(registrytest.As(org), "prod", "update_variables", nil, func(now map[string]registry.Variable) error {
		now["REGION"] = registry.Variable{Value: region, Enabled: true}
		now["OFF"] = registry.Variable{Value: "x"}
		return nil
	})
	require.NoError(k.t, err)
}

func (k *keys) vars(run runstate.Run) map[string]string {
	k.t.Helper()
	input, err := runstate.LoadInput(k.ctx, k.store, k.objects, org, run.ID)
	require.NoError(k.t, err)
	return input.Vars
}

// TestRunsSeeTheEnabledVariablesAsTheyAreThen: a run, and a retry of it, each as they
// are when it is accepted.
func TestRunsSeeTheEnabledVariablesAsTheyAreThen(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	s := k.inProd("eu")
	req := keyed("request")
	req.Environment = "prod"
	run, err := l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	k.setRegion(s, "us")
	_, err = l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"REGION": "eu"}, k.vars(run))

	_, err = k.store.Update(k.ctx, table.Update{Key: run.Key, Do: []table.Action{table.Set(runstate.RunStatus, string(engine.Failed))}})
	require.NoError(t, err)
	retried, err := l.Retry(k.ctx, org, run.ID, false)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"REGION": "us"}, k.vars(retried.Run))
}

// TestARunInAnUnknownEnvironmentIsNotAccepted: 422, and nothing is written; also of
// a retry whose environment was deleted.
func TestARunInAnUnknownEnvironmentIsNotAccepted(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(k.store)
	for _, req := range []launch.Request{keyed("request"), of(nightly(0))} {
		req.Environment = "prod"
		_, err := l.Accept(k.ctx, org, req)
		assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
	}
	assert.Empty(t, k.runs())

	s := k.inProd("eu")
	req := keyed("request")
	req.Environment = "prod"
	run, err := l.Accept(k.ctx, org, req)
	require.NoError(t, err)
	_, err = s.DeleteEnvironment(registrytest.As(org), "prod")
	assert.Equal(t, errs.Conflict, errs.CodeOf(err))
	assert.ErrorContains(t, err, "run '"+run.Slug+"'")
	_, err = k.store.Update(k.ctx, table.Update{Key: run.Key, Do: []table.Action{table.Set(runstate.RunStatus, string(engine.Failed))}})
	require.NoError(t, err)
	_, err = s.DeleteEnvironment(registrytest.As(org), "prod")
	require.NoError(t, err)
	_, err = l.Retry(k.ctx, org, run.ID, false)
	assert.Equal(t, errs.Unprocessable, errs.CodeOf(err))
	assert.Len(t, k.runs(), 1)
}

// before is a table on which something happens before a transaction, once.
type before struct {
	table.Table
	do func() error
}

func (b *before) Transact(ctx context.Context, writes ...table.Write) error {
	if do := b.do; do != nil {
		b.do = nil
		if err := do(); err != nil {
			return err
		}
	}
	return b.Table.Transact(ctx, writes...)
}

// TestDeletionAndAcceptanceMeet: whichever is first, no run is accepted in an
// environment that was deleted.
func TestDeletionAndAcceptanceMeet(t *testing.T) {
	t.Parallel()
	for name, req := range map[string]launch.Request{"by hand": {Flow: "f", Version: "1"}, "with a key": keyed("request"), "of an occurrence": of(nightly(0))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			req.Environment = "prod"
			s := k.inProd("eu")
			store := &before{Table: k.store, do: func() error {
				_, err := s.DeleteEnvironment(registrytest.As(org), "prod")
				return err
			}}
			_, err := k.launcher(store).Accept(k.ctx, org, req)
			assert.Equal(t, errs.Unprocessable, errs.CodeOf(err), "deleted before: %v", err)
			assert.Empty(t, k.runs())

			s = k.inProd("eu")
			racing := s
			racing.Table = &before{Table: k.store, do: func() error {
				_, err := k.launcher(k.store).Accept(k.ctx, org, req)
				return err
			}}
			_, err = racing.DeleteEnvironment(registrytest.As(org), "prod")
			assert.Equal(t, errs.Conflict, errs.CodeOf(err), "accepted before: %v", err)
			assert.Len(t, k.runs(), 1)
		})
	}
}

// TestHinderedAcceptanceTakesAnotherShard: transactions of other runs of the
// environment do not make the request fail.
func TestHinderedAcceptanceTakesAnotherShard(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	k.inProd("eu")
	shards := map[string]bool{}
	store := &held{Table: k.store, shards: shards}
	req := keyed("request")
	req.Environment = "prod"
	_, err := k.launcher(store).Accept(k.ctx, org, req)
	require.NoError(t, err)
	assert.Len(t, shards, 4)
}

// held is a table on which others hold the first three shards of an environment that
// are tried.
type held struct {
	table.Table
	shards map[string]bool
}

func (h *held) Transact(ctx context.Context, writes ...table.Write) error {
	reasons := make([]table.Reason, len(writes))
	for i, w := range writes {
		if w.Target().PK == org+"#env#prod" {
			if h.shards[w.Target().SK] {
				return errors.New("a shard is tried twice")
			}
			h.shards[w.Target().SK] = true
			if len(h.shards) < 4 {
				reasons[i].Err = table.ErrConflict
				return &table.TransactionError{Reasons: reasons}
			}
		}
	}
	return h.Table.Transact(ctx, writes...)
}
