package worker

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/expr"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/runstate"
	"millrace/shared/run/tasktype"
)

func until(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// TestScopesShareMemory checks that expressions that read large outputs are not
// evaluated at once if they need more memory than there is, and that an attempt
// that gets none in time is released.
func TestScopesShareMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := memory.Table(t, clock.System{})
		objects := &blobtest.Memory{}
		for i, name := range []string{"org/large", "org/larger"} { // as JSON; much larger when decoded
			raw := []byte("[" + strings.Repeat("{},", (3+4*i)<<20/3) + "{}]")
			_, err := blob.PutBytes(t.Context(), objects, name, raw, blob.PutOptions{})
			require.NoError(t, err)
			require.NoError(t, tbl.Put(t.Context(), table.Put{Item: runstate.Node{
				Key: runstate.NodeKey("org", "run", engine.Node(i)), Status: engine.Succeeded, OutputRef: name, OutputSize: int64(len(raw)),
			}}))
		}
		first := contender(tbl, "boot", time.Now())
		flow, faults := flowspec.Parse(t.Context(), []byte(`{"tasks":[{"name":"a","type":"python","entrypoint":"m:f"},{"name":"b","type":"python","entrypoint":"m:f"}]}`), tasktype.Kinds())
		require.Empty(t, faults)
		first.flow = &compiled{Flow: flow, plan: engine.NewPlan(make([]engine.TaskDef, 2))}
		first.Worker.Blob = objects
		second := first.Worker.session("org", "run")
		second.flow = first.flow
		one, two := values{first}, values{second}

		require.NoError(t, one.reserveScope(t.Context(), []string{"a"}))
		require.NoError(t, one.reserveScope(t.Context(), []string{"a"}), "in place of what it held")
		began := time.Now()
		require.ErrorIs(t, two.reserveScope(t.Context(), []string{"a"}), errMemory)
		assert.Less(t, time.Since(began), Lease/2)
		one.releaseScope()
		one.releaseScope()
		require.NoError(t, two.reserveScope(t.Context(), []string{"a"}))
		require.ErrorIs(t, one.hold(until(t, time.Second), scopeBytes), context.DeadlineExceeded)
		two.releaseScope()
		require.NoError(t, one.hold(t.Context(), scopeBytes))
		one.releaseScope()

		var bad *expr.EvalError
		require.ErrorAs(t, one.reserveScope(t.Context(), []string{"b"}), &bad, "there is not so much")
		assert.Contains(t, bad.Msg, "160 MB")
	})
}
