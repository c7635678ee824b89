package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry/telemetrytest"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runlog"
	"millrace/shared/run/worker"
)

// fails scripts tasks that fail, each with a message.
func (w *world) fails(tasks map[string]string) {
	for name, text := range tasks {
		w.task(name, func(context.Context, *executor.Attempt) executor.Result {
			return executor.Failed(executor.TaskFailed, "%s", text)
		})
	}
}

// TestRunErrorNamesDecisiveTasks checks that a run's error names the failed
// tasks that determined its status, and none that a trigger rule tolerated.
func TestRunErrorNamesDecisiveTasks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 400)
	for _, c := range []struct {
		name, flow string
		rules      map[string]map[string]any
		fails      map[string]string
		want       string
	}{
		{
			"a tolerated failure", spec("train", "other", "choose: train other"),
			map[string]map[string]any{"choose": {"trigger_rule": "all_done"}},
			map[string]string{"train": "RuntimeError: no model", "choose": "ValueError: nothing\nto choose"},
			"2 of 3 tasks failed: choose (ValueError: nothing to choose)",
		},
		{
			"the cause of an UPSTREAM_FAILED sink", spec("a", "b: a", "c: b", "other"), nil,
			map[string]string{"a": "KeyError: 'x'"},
			"1 of 4 tasks failed: a (KeyError: 'x')",
		},
		{
			"an instance of a map", spec("each", "after: each"),
			map[string]map[string]any{"each": {"map_over": "[1, 2, 3]"}},
			map[string]string{"each": "ValueError: bad"},
			"1 of 2 tasks failed: each[0] (ValueError: bad; 3 of 3 instances failed)",
		},
		{
			"more tasks than are named", spec("a", "b", "c", "d", "e"), nil,
			map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"},
			"5 of 5 tasks failed: a (1), b (2), c (3), and 2 more",
		},
		{
			"a long message", spec("a"), nil, map[string]string{"a": long},
			"1 of 1 tasks failed: a (" + long[:300] + "…)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.fails(c.fails)
				w.register("f", with(c.flow, c.rules))
				run := w.wait(w.run("f").ID)
				assert.Equal(t, engine.Failed, run.Status)
				assert.Equal(t, c.want, run.Error)
			})
		})
	}
}

// TestOnFailureTaskGetsFailures checks that the task gets the last failures of
// tasks and instances, the first hundred and their number, and that expressions
// see the same.
func TestOnFailureTaskGetsFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails(map[string]string{"a": "ValueError: one", "each": "ValueError: two"})
		var told *executor.Failures
		w.task("page", func(ctx context.Context, a *executor.Attempt) executor.Result {
			var err error
			told, err = a.Failed(ctx)
			assert.NoError(t, err)
			return ok("null")
		})
		raw := with(spec("fine", "a", "each", "after: a"), map[string]map[string]any{
			"a": {"retries": 1}, "each": {"map_over": fmt.Sprintf("lists.range(%d)", worker.MaxFailures+20)},
		})
		flow := func(onFailure string) string {
			return strings.TrimSuffix(raw, "}") + `,"on_failure":` + onFailure + `}`
		}
		w.register("f", flow(`{"name":"page","type":"python","entrypoint":"flow:page"}`))
		w.wait(w.run("f").ID)
		require.NotNil(t, told)
		assert.Equal(t, worker.MaxFailures+21, told.Count)
		var list []map[string]any
		require.NoError(t, json.Unmarshal(told.List, &list))
		require.Len(t, list, worker.MaxFailures)
		assert.Equal(t, map[string]any{"task_name": "a", "map_index": nil, "attempt": 2.0, "error_type": "TaskFailedError", "error_message": "ValueError: one"}, list[0])
		assert.Equal(t, map[string]any{"task_name": "each", "map_index": 0.0, "attempt": 1.0, "error_type": "TaskFailedError", "error_message": "ValueError: two"}, list[1])

		w.register("g", flow(`{"name":"page","type":"transform","config":{"expression":"[failed[0].task_name, string(failed_count)]"}}`))
		id := w.wait(w.run("g").ID).ID
		assert.JSONEq(t, `["a", "121"]`, w.nodes(id)["page"].Output)
	})
}

// TestEndEventsNameTheirAttempt checks that every log event of the end of an
// attempt has its task, its record, its attempt, and its index in a map.
func TestEndEventsNameTheirAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.fails(map[string]string{"bad": "no"})
		stuck := make(chan struct{})
		w.task("lost", func(ctx context.Context, a *executor.Attempt) executor.Result {
			if a.Number > 1 {
				return ok("1")
			}
			close(stuck)
			<-ctx.Done()
			return ok("1")
		})
		w.register("f", with(spec("lost", "bad", "never: bad", "each", "skips"), map[string]map[string]any{
			"each": {"map_over": "[1, 2]"}, "skips": {"condition": "false"},
		}))
		id := w.run("f").ID
		<-stuck
		w.kill()
		w.boot = "boot2"
		w.start(slog.New(slog.DiscardHandler))
		require.NoError(t, w.c.Reconcile(w.ctx, org, id))
		w.wait(id)
		page, err := w.logs.Page(w.ctx, org, id, true, "", runlog.MaxLimit)
		require.NoError(t, err)
		ends := map[string]bool{}
		for _, raw := range page.Events {
			var e runlog.Event
			require.NoError(t, json.Unmarshal(raw, &e))
			if strings.HasPrefix(e.EventType, "run_") {
				continue
			}
			assert.NotEmpty(t, e.TaskName, "%s", raw)
			if strings.Contains(e.Message, "all 2 instances") {
				continue // the map as a whole
			}
			assert.Equal(t, fmt.Sprint(e.Attempt), e.TaskRunID[strings.LastIndex(e.TaskRunID, "-")+1:], "%s", raw)
			assert.Positive(t, e.Attempt, "%s", raw)
			assert.True(t, e.TaskName != "each" || e.MapIndex != nil || e.EventType == runlog.TypeTaskStarted, "%s", raw)
			ends[e.EventType+" "+e.TaskName] = true
		}
		for _, want := range []string{"task_lost lost", "task_succeeded lost", "task_failed bad", "task_failed never", "task_succeeded each", "task_skipped skips"} {
			assert.Contains(t, ends, want)
		}
	})
}

// TestTheServicesLogNamesFailedRuns: a line for each, without the words of the
// user's code; none for other runs.
func TestTheServicesLogNamesFailedRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.kill()
		var log telemetrytest.Log
		w.start(log.Logger())
		w.fails(map[string]string{"bad": "the customer's own words"})
		w.register("fails", spec("bad"))
		w.register("fine", spec("good"))
		bad := w.wait(w.run("fails").ID)
		w.wait(w.run("fine").ID)
		w.kill()
		var lines []map[string]any
		for _, line := range log.Lines(t) {
			assert.NotContains(t, fmt.Sprint(line), "own words")
			if line[slog.LevelKey] != "DEBUG" {
				lines = append(lines, line)
			}
		}
		require.Len(t, lines, 1, "%v", lines)
		assert.Subset(t, lines[0], map[string]any{
			slog.LevelKey: "INFO", slog.MessageKey: "run failed", "run_id": bad.ID, "run_slug": bad.Slug, "flow": "fails", "version": "1", "status": "FAILED",
		})
	})
}
