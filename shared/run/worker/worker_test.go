package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/sandbox"
)

func itoa(n int) string { return strconv.Itoa(n) }

// spec returns a flow_spec of scripted tasks written as "name: dep dep".
func spec(tasks ...string) string {
	var list []map[string]any
	for _, t := range tasks {
		name, deps, _ := strings.Cut(t, ":")
		task := map[string]any{"name": name, "type": "python", "entrypoint": "flow:" + strings.ReplaceAll(name, "-", "_")}
		if d := strings.Fields(deps); len(d) > 0 {
			task["depends_on"] = d
		}
		list = append(list, task)
	}
	raw, _ := json.Marshal(map[string]any{"tasks": list})
	return string(raw)
}

// with sets fields of tasks of a flow_spec, by task name.
func with(raw string, fields map[string]map[string]any) string {
	var doc map[string]any
	_ = json.Unmarshal([]byte(raw), &doc)
	for _, t := range doc["tasks"].([]any) {
		task := t.(map[string]any)
		for k, v := range fields[task["name"].(string)] {
			task[k] = v
		}
	}
	out, _ := json.Marshal(doc)
	return string(out)
}

func TestChainRunsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tasks := []string{"t0"}
		for i := 1; i < 40; i++ {
			tasks = append(tasks, fmt.Sprintf("t%d: t%d", i, i-1))
		}
		w.register("chain", spec(tasks...))
		run := w.wait(w.run("chain").ID)
		assert.Equal(t, engine.Succeeded, run.Status)
		require.Len(t, w.ran, 40)
		for i, name := range w.ran {
			assert.Equal(t, fmt.Sprintf("t%d", i), name)
		}
	})
}

func TestFanOutAndJoin(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 2, 64, 65, 100, 350} {
		t.Run(itoa(width), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tasks, deps := []string{"root"}, ""
				for i := range width {
					tasks = append(tasks, fmt.Sprintf("p%d: root", i))
					deps += fmt.Sprintf(" p%d", i)
				}
				w.register("fan", spec(append(tasks, "join:"+deps)...))
				run := w.wait(w.run("fan").ID)
				assert.Equal(t, engine.Succeeded, run.Status)
				assert.Len(t, w.ran, width+2)
				assert.Equal(t, "join", w.ran[width+1])
				assert.Equal(t, 1, w.times("p0"))
			})
		})
	}
}

func TestMapOutputsItsList(t *testing.T) {
	t.Parallel()
	for _, width := range []int{0, 1, 3, 150} {
		t.Run(itoa(width), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var list []int
				want := []string{}
				for i := range width {
					list = append(list, i*10)
					want = append(want, itoa(i*10+1))
				}
				raw, _ := json.Marshal(list)
				if width == 0 {
					raw = []byte("[]")
				}
				w.task("make", func(context.Context, *executor.Attempt) executor.Result { return ok(string(raw)) })
				w.task("each", func(_ context.Context, a *executor.Attempt) executor.Result {
					var n int
					require.NoError(t, json.Unmarshal(a.Item, &n))
					assert.Equal(t, *a.MapIndex*10, n)
					return ok(itoa(n + 1))
				})
				var got string
				w.task("sum", func(ctx context.Context, a *executor.Attempt) executor.Result {
					v, err := a.Output(ctx, "each")
					require.NoError(t, err)
					got = string(v.JSON)
					return ok("1")
				})
				w.register("map", with(spec("make", "each: make", "sum: each"), map[string]map[string]any{"each": {"map_over": "tasks.make.output"}}))
				run := w.wait(w.run("map").ID)
				assert.Equal(t, engine.Succeeded, run.Status)
				assert.Equal(t, width, w.times("each"))
				assert.JSONEq(t, "["+strings.Join(want, ",")+"]", got)
			})
		})
	}
}

func TestRetriesThenSucceeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("flaky", func(_ context.Context, a *executor.Attempt) executor.Result {
			if a.Number < 3 {
				return executor.Failed(executor.TaskFailed, "no")
			}
			return ok(`"yes"`)
		})
		w.register("f", with(spec("flaky", "after: flaky"), map[string]map[string]any{
			"flaky": {"retries": 2, "retry_backoff": map[string]any{"delay_secs": 1800, "factor": 2}},
		}))
		began := time.Now()
		run := w.wait(w.run("f").ID)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, 3, w.times("flaky"))
		// 1,800 s, then 3,600 limited to the default maximum of 300: longer than a
		// queue can delay.
		assert.InDelta(t, 600, time.Since(began).Seconds(), 30)
		item := w.nodes(run.ID)["flaky"]
		require.Len(t, item.History, 2)
		assert.Equal(t, 3, item.Attempt)
		assert.Equal(t, "no", item.History[0].Error)
	})
}

func TestFailureStopsDependentsAndRunsOnFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("bad", func(context.Context, *executor.Attempt) executor.Result {
			return executor.Failed(executor.TaskFailed, "ValueError: nope")
		})
		raw := with(spec("good", "bad", "after: bad", "always: after", "cleanup: bad good"), map[string]map[string]any{
			"always":  {"trigger_rule": "all_done"},
			"cleanup": {"trigger_rule": "one_failed"},
		})
		raw = strings.TrimSuffix(raw, "}") + `,"on_failure":{"name":"page","type":"python","entrypoint":"flow:page"}}`
		w.register("f", raw)
		run := w.wait(w.run("f").ID)
		// Its sinks succeeded: all_done and one_failed tolerate the failure.
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, engine.UpstreamFailed, w.status(run.ID, "after"))
		assert.Equal(t, 1, w.times("always"))
		assert.Equal(t, 1, w.times("cleanup"))
		assert.Equal(t, 0, w.times("page"))

		raw = spec("bad", "after: bad")
		raw = strings.TrimSuffix(raw, "}") + `,"on_failure":{"name":"page","type":"python","entrypoint":"flow:page"}}`
		w.register("g", raw)
		run = w.wait(w.run("g").ID)
		assert.Equal(t, engine.Failed, run.Status)
		assert.Equal(t, 1, w.times("page"))
		assert.Equal(t, engine.Succeeded, w.status(run.ID, "page"))
		assert.Contains(t, run.Error, "ValueError: nope")
	})
}

func TestConditionSkips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register("f", with(spec("a", "b: a", "c: b", "d: b"), map[string]map[string]any{
			"b": {"condition": "params.go == true"},
			"d": {"trigger_rule": "none_failed"},
		}))
		run := w.wait(w.run("f", "go", "false").ID)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.Equal(t, engine.Skipped, w.status(run.ID, "b"))
		assert.Equal(t, engine.Skipped, w.status(run.ID, "c"))
		assert.Equal(t, engine.Succeeded, w.status(run.ID, "d"))
		run = w.wait(w.run("f", "go", "true").ID)
		assert.Equal(t, engine.Succeeded, w.status(run.ID, "c"))
	})
}

func TestTimeoutEndsTimedOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("slow", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			<-ctx.Done()
			return ok("1")
		})
		w.register("f", with(spec("slow", "after: slow"), map[string]map[string]any{"slow": {"timeout_secs": 60, "retries": 1}}))
		run := w.wait(w.run("f").ID)
		assert.Equal(t, engine.TimedOut, run.Status)
		assert.Equal(t, 2, w.times("slow"))
		assert.Equal(t, engine.TimedOut, w.status(run.ID, "slow"))
		assert.Equal(t, engine.UpstreamFailed, w.status(run.ID, "after"))
	})
}

func TestDeadlineEndsRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("slow", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			<-ctx.Done()
			return ok("1")
		})
		w.register("f", strings.TrimSuffix(spec("slow", "after: slow", "other"), "}")+`,"timeout_secs":90}`)
		began := time.Now()
		run := w.wait(w.run("f").ID)
		assert.Equal(t, engine.TimedOut, run.Status)
		assert.InDelta(t, 90, time.Since(began).Seconds(), 10)
		assert.Equal(t, 0, w.times("after"))
		assert.Contains(t, run.Error, "timeout_secs (90)")
	})
}

func TestCancelStopsRunningTask(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		began, stopped := make(chan struct{}), make(chan struct{})
		w.task("slow", func(ctx context.Context, _ *executor.Attempt) executor.Result {
			close(began)
			<-ctx.Done()
			close(stopped)
			return ok("1")
		})
		w.register("f", spec("slow", "after: slow"))
		id := w.run("f").ID
		<-began
		asked := time.Now()
		run, err := w.launch.Cancel(w.ctx, org, id)
		require.NoError(t, err)
		assert.Equal(t, engine.CancellationRequested, run.Status)
		<-stopped
		assert.Less(t, time.Since(asked), 100*time.Millisecond)
		run = w.wait(id)
		assert.Equal(t, engine.Cancelled, run.Status)
		assert.Equal(t, engine.Cancelled, w.status(id, "slow"))
		assert.Equal(t, 0, w.times("after"))
		_, err = w.launch.Cancel(w.ctx, org, id)
		require.NoError(t, err, "cancel may be repeated")
	})
}

func TestWaitOccupiesNoWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.register("f", `{"tasks":[{"name":"nap","type":"wait","config":{"seconds":7200}},{"name":"t","type":"transform","depends_on":["nap"],"config":{"expression":"tasks.nap.output.waited_seconds"}}]}`)
		began := time.Now()
		run := w.wait(w.run("f").ID)
		assert.Equal(t, engine.Succeeded, run.Status)
		assert.InDelta(t, 7200, time.Since(began).Seconds(), 5)
		assert.Equal(t, "7200", w.nodes(run.ID)["t"].Output)
	})
}

func TestRetryFromFailedReusesResults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("a", func(context.Context, *executor.Attempt) executor.Result { return ok(`[1,2,3]`) })
		broken := true
		w.task("each", func(_ context.Context, a *executor.Attempt) executor.Result {
			if broken && *a.MapIndex == 1 {
				return executor.Failed(executor.TaskFailed, "no")
			}
			return ok(itoa(*a.MapIndex))
		})
		var got string
		w.task("last", func(ctx context.Context, a *executor.Attempt) executor.Result {
			v, err := a.Output(ctx, "each")
			require.NoError(t, err)
			got = string(v.JSON)
			return ok("1")
		})
		w.register("f", with(spec("a", "each: a", "last: each", "side: a"), map[string]map[string]any{"each": {"map_over": "tasks.a.output"}}))
		run := w.wait(w.run("f").ID)
		assert.Equal(t, engine.Failed, run.Status)
		broken = false
		again, err := w.launch.Retry(w.ctx, org, run.ID, true)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "side"}, again.Names)
		next := w.wait(again.Run.ID)
		assert.Equal(t, engine.Succeeded, next.Status)
		assert.Equal(t, 1, w.times("a"), "reused")
		assert.Equal(t, 1, w.times("side"), "reused")
		assert.Equal(t, 4, w.times("each"), "only the instance that failed runs again")
		assert.JSONEq(t, "[0,1,2]", got)
		assert.Equal(t, engine.Reused, w.status(next.ID, "each[0]"))
		assert.Equal(t, engine.Succeeded, w.status(next.ID, "each[1]"))
	})
}

// TestRetryWithDifferentListReusesNoInstance retries a map whose list depends
// on the run.
func TestRetryWithDifferentListReusesNoInstance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		broken := true
		w.task("each", func(_ context.Context, a *executor.Attempt) executor.Result {
			if broken && *a.MapIndex == 1 {
				return executor.Failed(executor.TaskFailed, "no")
			}
			return ok(string(a.Item))
		})
		w.register("f", with(spec("a", "each: a"), map[string]map[string]any{"each": {"map_over": `[run.run_id, "last"]`}}))
		run := w.wait(w.run("f").ID)
		require.Equal(t, engine.Failed, run.Status)
		require.Equal(t, engine.Succeeded, w.status(run.ID, "each[0]"))
		broken = false
		again, err := w.launch.Retry(w.ctx, org, run.ID, true)
		require.NoError(t, err)
		next := w.wait(again.Run.ID)
		assert.Equal(t, engine.Succeeded, next.Status)
		assert.Equal(t, engine.Succeeded, w.status(next.ID, "each[0]"), "its item is another")
		assert.Equal(t, strconv.Quote(next.ID), w.nodes(next.ID)["each[0]"].Output)
		assert.Equal(t, 1, w.times("a"), "reused")
	})
}

func TestLogOfRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.task("talk", func(_ context.Context, a *executor.Attempt) executor.Result {
			for i := range 100 {
				a.Log(sandbox.LogEvent{Level: "info", Logger: "stdout", Message: fmt.Sprintf("line %d %s", i, strings.Repeat("x", 200))})
			}
			return ok("1")
		})
		w.register("f", spec("talk", "then: talk"))
		run := w.wait(w.run("f").ID)
		page, err := w.logs.Page(w.ctx, org, run.ID, true, "", runlog.MaxLimit)
		require.NoError(t, err)
		assert.Equal(t, runlog.Archive, page.Source)
		assert.Empty(t, page.Next)
		lines := 0
		for _, raw := range page.Events {
			var e struct {
				EventType string `json:"event_type"`
				Message   string `json:"message"`
			}
			require.NoError(t, json.Unmarshal(raw, &e))
			if e.EventType == runlog.TypeLog {
				assert.True(t, strings.HasPrefix(e.Message, fmt.Sprintf("line %d ", lines)))
				lines++
			}
		}
		assert.Equal(t, 100, lines)
		assert.Len(t, page.Events, 100+2+4)
	})
}
