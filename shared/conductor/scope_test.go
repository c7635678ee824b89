package conductor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/clock"
	"millrace/shared/engine"
	"millrace/shared/flowspec"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// TestScopesShareTheMemory: of expressions that read large outputs no more are
// evaluated at once than there is memory for; one that gets none in time lets its
// attempt be given back.
func TestScopesShareTheMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := memory.Table(t, clock.System{})
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: runstate.Node{
			Key: runstate.NodeKey("org", "run", 0), Status: engine.Succeeded, OutputRef: "large", OutputSize: maxScope,
		}}))
		first := contender(tbl, "boot", time.Now())
		flow, faults := flowspec.Parse([]byte(`{"tasks":[{"name":"a","type":"python","entrypoint":"m:f"}]}`), flowspec.Builtin())
		require.Empty(t, faults)
		first.flow = &compiled{Flow: flow, plan: engine.NewPlan(make([]engine.TaskDef, 1))}
		second := first.Conductor.session("org", "run")
		second.flow = first.flow
		one, two := values{first}, values{second}

		require.NoError(t, one.reserveScope(t.Context(), []string{"a"}))
		require.NoError(t, one.reserveScope(t.Context(), []string{"a"}), "in place of what it held")
		began := time.Now()
		require.ErrorIs(t, two.reserveScope(t.Context(), []string{"a"}), context.DeadlineExceeded)
		assert.Less(t, time.Since(began), Lease/2)
		one.releaseScope()
		one.releaseScope()
		require.NoError(t, two.reserveScope(t.Context(), []string{"a"}))
		two.releaseScope()
	})
}
