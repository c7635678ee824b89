package launch_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/fixture"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
)

func keyed(request string) launch.Request {
	return launch.Request{Flow: "f", Version: "1", Trigger: launch.Manual, Key: "key", Fingerprint: request}
}

// around is a table that calls functions before or after its first transaction.
type around struct {
	table.Table
	before, after func()
}

func (a *around) Transact(ctx context.Context, writes ...table.Write) error {
	before, after := a.before, a.after
	a.before, a.after = nil, nil
	if before != nil {
		before()
	}
	err := a.Table.Transact(ctx, writes...)
	if after != nil {
		after()
	}
	return err
}

// TestConcurrentRequestsWithOneKey checks that the later of two equal requests
// returns the run of the other, and makes none.
func TestConcurrentRequestsWithOneKey(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	var first runstate.Run
	a := &around{Table: k.store, before: func() {
		var err error
		first, err = k.launcher(k.store).Accept(k.ctx, org, keyed("request"))
		require.NoError(t, err)
	}}
	second, err := k.launcher(a).Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	assert.Equal(t, first.ID, second.ID)
}

// TestKeysAreReadConsistently checks that a repeated request returns its run
// even if other reads of the table are stale.
func TestKeysAreReadConsistently(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	l := k.launcher(faults.Lagging(k.store))
	first, err := l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	again, err := l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)
}

// TestKeyExpiresAfterADay checks that a key is free then, even if its item
// still exists.
func TestKeyExpiresAfterADay(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	now := time.Now()
	l := k.launcher(k.store)
	l.Clock = clock.Func(func() time.Time { return now })
	first, err := l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	now = now.Add(launch.KeyLifetime - 2*time.Second)
	again, err := l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	assert.Equal(t, first.ID, again.ID)
	now = now.Add(2 * time.Second)
	next, err := l.Accept(k.ctx, org, keyed("another"))
	require.NoError(t, err)
	assert.NotEqual(t, first.ID, next.ID)
	now = now.Add(launch.KeyLifetime - 2*time.Second)
	again, err = l.Accept(k.ctx, org, keyed("another"))
	require.NoError(t, err)
	assert.Equal(t, next.ID, again.ID, "its life began anew")
}

// TestKeyBelongsToOneWorkspace checks that the same key with the same flow
// makes a run in each workspace.
func TestKeyBelongsToOneWorkspace(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	const other = "org_other"
	ctx := fixture.Owner(t.Context(), other)
	k.register(ctx)
	l := k.launcher(k.store)
	one, err := l.Accept(k.ctx, org, keyed("request"))
	require.NoError(t, err)
	two, err := l.Accept(ctx, other, keyed("request"))
	require.NoError(t, err)
	assert.NotEqual(t, one.ID, two.ID)
	assert.Equal(t, other, two.Org)
}

// TestMessageIsSentAfterCallerCancelled checks that a run is sent to the
// workers if the caller's context ends after it was written.
func TestMessageIsSentAfterCallerCancelled(t *testing.T) {
	t.Parallel()
	k := newKeys(t)
	ctx, leave := context.WithCancel(k.ctx)
	defer leave()
	run, err := k.launcher(&around{Table: k.store, after: leave}).Accept(ctx, org, keyed("request"))
	require.NoError(t, err)
	require.Error(t, ctx.Err())
	got, err := k.queues.Receive(k.ctx, events.Tasks("nano"), 10, 0)
	require.NoError(t, err)
	require.Len(t, got, 1)
	assert.Contains(t, string(got[0].Body), run.ID)
	assert.Equal(t, org, got[0].Group)
}
