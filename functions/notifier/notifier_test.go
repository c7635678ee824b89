package notifier_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/notifier"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// finished publishes the end of a run, as the worker does, with a dedupe key.
func (w *world) finished(run, key string) {
	w.t.Helper()
	found := w.Do(w.t, w.A.Key, "GET", "/runs/"+run, nil).Require(w.t, 200)
	detail, err := json.Marshal(events.RunFinished{
		Org: w.A.OrgID, Run: run, Slug: found.String(w.t, "run_slug"), Flow: found.String(w.t, "flow_name"), Version: "1",
		Environment: "default", Status: found.String(w.t, "status"), CreatedAt: found.String(w.t, "created_at"),
	})
	require.NoError(w.t, err)
	require.NoError(w.t, w.Deps.Bus.Publish(w.t.Context(), bus.Event{
		DetailType: events.DetailRunAlert, Detail: detail, Workspace: w.A.OrgID, DedupeKey: key,
	}))
}

// TestFailureIsDeliveredOnce however often its event comes, to each channel of
// the rules of its flow.
func TestFailureIsDeliveredOnce(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("sales", 0, 0)
		w.flow("other", 0, 0)
		w.web.answers("/sales", 500)
		w.web.answers("/other", 500)
		hook, chat := w.channel("webhook", "/hook"), w.channel("chat", "/chat")
		rule := w.rule("on_failure", object{"flow_name": "sales"}, hook, chat)
		w.rule("on_success", nil, hook)
		run := w.start("sales")
		w.start("other")
		w.pass(time.Second)
		for _, key := range []string{run, run, "another"} {
			w.finished(run, key)
		}
		w.pass(10 * time.Minute)

		got := w.web.to("/hook")
		require.Len(t, got, 1)
		assert.Equal(t, "run.failed", got[0].body["type"])
		data := got[0].body["data"].(object)
		assert.Equal(t, []any{w.A.OrgID, rule}, []any{data["org_id"], data["rule"].(object)["rule_id"]})
		detail := w.Do(t, w.A.Key, "GET", "/runs/"+run, nil).Require(t, 200)
		reported := data["run"].(object)
		for _, name := range []string{"run_id", "run_slug", "flow_name", "flow_version", "environment", "status", "started_at", "ended_at", "error_message"} {
			assert.Equal(t, detail.Get(t, name), reported[name], name)
		}
		assert.Equal(t, "http://millrace.test/runs/"+run, reported["url"])
		assert.Len(t, w.web.to("/chat"), 1)
		assert.Equal(t, "delivered", w.last(hook).(object)["status"])
		assert.Empty(t, w.Do(t, w.B.Key, "GET", "/channels", nil).Require(t, 200).Items(t))
	})
}

// TestChannelThatFailsIsTriedAgain after a few seconds, then less and less often,
// and at last given up; another channel does not wait for it.
func TestChannelThatFailsIsTriedAgain(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("sales", 0, 0)
		w.web.answers("/sales", 500)
		down, refuses, late, fine := w.channel("webhook", "/down"), w.channel("webhook", "/refuses"), w.channel("webhook", "/late"), w.channel("webhook", "/fine")
		w.web.answers("/down", 503)
		w.web.answers("/refuses", 410)
		w.web.decides("/late", func(n int) (int, http.Header) {
			if n == 1 {
				return 429, http.Header{"Retry-After": {"120"}}
			}
			return 204, nil
		})
		w.rule("on_failure", nil)
		w.start("sales")
		w.pass(time.Second)
		assert.Len(t, w.web.to("/fine"), 1)
		assert.Equal(t, "failed", w.last(down).(object)["status"])
		assert.Contains(t, w.last(down).(object)["detail"], "answered 503 (attempt 1 of 8; the next in ")
		w.pass(9 * time.Second)
		assert.Len(t, w.web.to("/down"), 2, "the first repetition comes within ten seconds")
		w.pass(100 * time.Second)
		assert.Len(t, w.web.to("/late"), 1, "it asked for two minutes")
		w.pass(5 * time.Hour)

		all := w.web.to("/down")
		require.Len(t, all, 8)
		for _, c := range all {
			assert.Equal(t, all[0].id, c.id, "a repetition has the id of the first")
		}
		assert.Equal(t, "failed", w.last(down).(object)["status"])
		assert.NotContains(t, w.last(down).(object)["detail"], "attempt", "it is given up")
		assert.Len(t, w.web.to("/late"), 2)
		assert.Equal(t, "delivered", w.last(late).(object)["status"])
		assert.Len(t, w.web.to("/refuses"), 1, "an answer that is final is not asked for again")
		assert.Equal(t, "failed", w.last(refuses).(object)["status"])
		assert.Len(t, w.web.to("/fine"), 1)
		assert.Equal(t, "delivered", w.last(fine).(object)["status"])
	})
}

// TestCrashAfterSendingRepeatsOneAttempt: the outcome of an attempt is lost after
// it was sent. It is sent once more, with the same id.
func TestCrashAfterSendingRepeatsOneAttempt(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("sales", 0, 0)
		w.web.answers("/sales", 500)
		hook := w.channel("webhook", "/hook")
		w.rule("on_failure", nil)
		w.table.fails = 1
		w.start("sales")
		w.pass(20 * time.Second)
		require.Zero(t, w.table.fails)
		require.Len(t, w.web.to("/hook"), 1)
		assert.Nil(t, w.last(hook))
		w.pass(10 * time.Minute)
		got := w.web.to("/hook")
		require.Len(t, got, 2)
		assert.NotEmpty(t, got[0].id)
		assert.Equal(t, got[0].id, got[1].id)
		assert.Equal(t, "delivered", w.last(hook).(object)["status"])
		n, err := table.Count(t.Context(), w.Deps.Table, table.Query{PK: w.A.OrgID + "#deliveries"})
		require.NoError(t, err)
		assert.Equal(t, int64(1), n)
	})
}

// TestLostMessageIsRepeated: the message of a delivery is lost, the tick finds
// the delivery.
func TestLostMessageIsRepeated(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		hook := w.channel("webhook", "/hook")
		w.rule("on_failure", nil)
		require.NoError(t, w.Deps.Table.Put(t.Context(), notifier.Sample(w.A.OrgID, hook, time.Now())))
		w.pass(2 * time.Minute)
		require.Len(t, w.web.to("/hook"), 1)
		assert.Equal(t, "delivered", w.last(hook).(object)["status"])
	})
}

// TestDeletedChannelGetsNothing: what is due when a channel is deleted is given
// up.
func TestDeletedChannelGetsNothing(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("sales", 0, 0)
		w.web.answers("/sales", 500)
		hook := w.channel("webhook", "/hook")
		w.web.answers("/hook", 500)
		w.rule("on_failure", nil)
		w.start("sales")
		w.pass(time.Second)
		w.Do(t, w.A.Key, "DELETE", "/channels/"+hook, nil).Require(t, 200)
		w.pass(10 * time.Minute)
		assert.Len(t, w.web.to("/hook"), 1)
	})
}

// TestSuccessAndRetryAreDelivered, each once.
func TestSuccessAndRetryAreDelivered(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("sales", 0, 3)
		w.web.decides("/sales", func(n int) (int, http.Header) {
			if n < 3 {
				return 500, nil
			}
			return 200, nil
		})
		w.rule("on_success", nil, w.channel("webhook", "/success"))
		w.rule("on_retry", object{"flow_name": "sales"}, w.channel("webhook", "/retry"))
		w.rule("on_retry", object{"flow_name": "other"}, w.channel("webhook", "/other"))
		run := w.start("sales")
		w.pass(20 * time.Minute)
		got := w.web.to("/success")
		require.Len(t, got, 1)
		assert.Equal(t, "run.succeeded", got[0].body["type"])
		retried := w.web.to("/retry")
		require.Len(t, retried, 2)
		for i, c := range retried {
			assert.Equal(t, "task.retried", c.body["type"])
			data := c.body["data"].(object)
			task := data["task"].(object)
			assert.Equal(t, []any{"load", float64(i + 1)}, []any{task["task_name"], task["attempt"]})
			assert.Contains(t, task["error_message"], "500")
			assert.Equal(t, []any{run, "RUNNING"}, []any{data["run"].(object)["run_id"], data["run"].(object)["status"]})
		}
		assert.Empty(t, w.web.to("/other"))
	})
}

// TestBreachIsReportedWhileTheRunRuns, once, and that of a run which ended late
// between two looks; not that of one in time.
func TestBreachIsReportedWhileTheRunRuns(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("long", 3600, 0)
		w.flow("late", 130, 0)
		w.flow("short", 60, 0)
		w.flow("other", 3600, 0)
		hook := w.channel("webhook", "/hook")
		for _, flow := range []string{"long", "late", "short"} {
			w.rule("on_sla_breach", object{"flow_name": flow, "sla_seconds": 120}, hook)
		}
		w.pass(10 * time.Minute)
		long, late := w.start("long"), w.start("late")
		w.start("short")
		w.start("other")
		w.pass(119 * time.Second)
		assert.Empty(t, w.web.to("/hook"))
		w.pass(92 * time.Second)
		status := map[any]any{}
		for _, c := range w.web.to("/hook") {
			assert.Equal(t, "run.sla_breached", c.body["type"])
			run := c.body["data"].(object)["run"].(object)
			status[run["run_id"]] = run["status"]
			assert.Equal(t, float64(120), c.body["data"].(object)["rule"].(object)["sla_seconds"])
		}
		assert.Len(t, status, 2)
		assert.Equal(t, "RUNNING", status[long])
		assert.Contains(t, []any{"RUNNING", "SUCCEEDED"}, status[late])
		w.pass(70 * time.Minute)
		assert.Len(t, w.web.to("/hook"), 2, "each once")
	})
}

// TestShortSLAIsJudgedWithinSeconds by looks of its own between two ticks.
func TestShortSLAIsJudgedWithinSeconds(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("long", 3600, 0)
		w.rule("on_sla_breach", object{"sla_seconds": 3}, w.channel("webhook", "/hook"))
		w.pass(2 * time.Minute)
		w.start("long")
		w.pass(12 * time.Second)
		assert.Len(t, w.web.to("/hook"), 1)
	})
}

// TestManyRunsBecomeLateAtOnce: a look takes part of them, the next ones the
// rest.
func TestManyRunsBecomeLateAtOnce(t *testing.T) {
	t.Parallel()
	const runs = 450
	within(t, func(t *testing.T, w *world) {
		w.rule("on_sla_breach", object{"sla_seconds": 600}, w.channel("webhook", "/hook"))
		now := time.Now()
		var writes []table.Write
		for i := range runs {
			writes = append(writes, table.Put{Item: notifier.SampleRun(w.A.OrgID, ids.New(now.Add(time.Duration(i/100)*time.Second)))})
		}
		require.NoError(t, w.Deps.Table.BatchWrite(t.Context(), writes))
		w.pass(12 * time.Minute)
		seen := map[any]bool{}
		for _, c := range w.web.to("/hook") {
			seen[c.body["data"].(object)["run"].(object)["run_id"]] = true
		}
		assert.Len(t, seen, runs)
		assert.Len(t, w.web.to("/hook"), runs)
	})
}

// TestSuccessResolvesTheIncident that a failure of the flow has opened, once.
func TestSuccessResolvesTheIncident(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("sales", 0, 0)
		w.flow("other", 0, 0)
		w.web.decides("/sales", func(n int) (int, http.Header) {
			if n == 1 || n == 2 || n == 5 {
				return 500, nil
			}
			return 200, nil
		})
		w.rule("on_failure", nil, w.channel("incident", "/incident"), w.channel("webhook", "/hook"))
		for range 6 {
			w.start("sales")
			w.pass(time.Minute)
			w.start("other")
			w.pass(time.Minute)
		}
		var actions []any
		keys := map[any]bool{}
		for _, c := range w.web.to("/incident") {
			actions = append(actions, c.body["event_action"])
			keys[c.body["dedup_key"]] = true
		}
		assert.Equal(t, []any{"trigger", "trigger", "resolve", "trigger", "resolve"}, actions)
		assert.Len(t, keys, 1)
		assert.Len(t, w.web.to("/hook"), 3, "nothing else is resolved")
	})
}

// TestIncidentIsNotOpenedAfterItsEnd: the channel was down when the flow failed
// and succeeded again.
func TestIncidentIsNotOpenedAfterItsEnd(t *testing.T) {
	t.Parallel()
	within(t, func(t *testing.T, w *world) {
		w.flow("sales", 0, 0)
		w.web.decides("/sales", func(n int) (int, http.Header) {
			if n == 1 {
				return 500, nil
			}
			return 200, nil
		})
		channel := w.channel("incident", "/incident")
		w.web.answers("/incident", 500)
		w.rule("on_failure", nil)
		w.start("sales")
		w.pass(time.Minute)
		w.start("sales")
		w.pass(time.Second)
		w.web.answers("/incident", 202)
		w.pass(10 * time.Minute)
		got := w.web.to("/incident")
		assert.Equal(t, "resolve", got[len(got)-1].body["event_action"])
		n := 0
		for _, c := range got {
			if c.body["event_action"] == "trigger" {
				n++
			}
		}
		assert.Equal(t, 3, n, "at once, after six and after 36 seconds, when the channel was down")
		assert.NotNil(t, w.last(channel))
	})
}
