package taskworker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/platform/clock"
	"millrace/shared/run/executor"
	"millrace/shared/run/tasktype"
	"millrace/shared/web/fn"
)

func TestEachTaskTypeHasExecutor(t *testing.T) {
	t.Parallel()
	set := fn.Deps{Clock: clock.System{}}.Executors(nil)
	assert.Len(t, set, len(tasktype.All()))
	for _, typ := range tasktype.All() {
		e := set[typ.Name]
		if !assert.NotNil(t, e, "nothing runs tasks of type %s", typ.Name) {
			continue
		}
		_, reserves := e.(executor.Reserver)
		assert.Equal(t, typ.Sandboxed, reserves, "%s: a place in the sandbox is reserved for user code", typ.Name)
		if !e.Instant() {
			longest := time.Duration(typ.MaxTimeoutSecs) * time.Second
			assert.Less(t, longest, Spec.Timeout, "%s: a task that holds a worker ends within its invocation", typ.Name)
		}
	}
}
