package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
)

// TestReleasedAttemptsSpread releases many attempts at once: they do not come
// back at once.
func TestReleasedAttemptsSpread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		const width = 64
		first := make(map[time.Duration]int)
		refused := map[int]bool{}
		var began time.Time
		w.task("each", func(_ context.Context, a *executor.Attempt) executor.Result {
			w.mu.Lock()
			defer w.mu.Unlock()
			if !refused[*a.MapIndex] {
				refused[*a.MapIndex] = true
				return executor.NotStarted(errors.New("busy"))
			}
			first[time.Since(began).Truncate(50*time.Millisecond)]++
			return ok("1")
		})
		w.register("f", with(spec("each"), map[string]map[string]any{"each": {"map_over": fmt.Sprintf("lists.range(%d)", width)}}))
		began = time.Now()
		id := w.run("f").ID
		assert.Equal(t, engine.Succeeded, w.wait(id).Status)
		most := 0
		for _, n := range first {
			most = max(most, n)
		}
		assert.Less(t, most, width/2, "%v", first)
	})
}
