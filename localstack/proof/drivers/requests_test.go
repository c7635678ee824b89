package drivers_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/functions/dispatch"
	"millrace/functions/schedulertick"
	"millrace/functions/taskworker"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/runstate"
	"millrace/shared/web/fn"
)

var update = flag.Bool("update", false, "write the golden files anew")

// meteredQueues counts requests as SQS does: in batches of up to ten.
type meteredQueues struct {
	queue.Queues
	mu       *sync.Mutex
	requests map[string]int
}

func (m meteredQueues) count(request string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests[request] += n
}

func (m meteredQueues) Send(ctx context.Context, q string, msgs ...queue.Message) error {
	m.count("SendMessageBatch", (len(msgs)+queue.MaxBatch-1)/queue.MaxBatch)
	return m.Queues.Send(ctx, q, msgs...)
}

func (m meteredQueues) Delete(ctx context.Context, q string, receipts ...string) error {
	m.count("DeleteMessageBatch", (len(receipts)+queue.MaxBatch-1)/queue.MaxBatch)
	return m.Queues.Delete(ctx, q, receipts...)
}

func (m meteredQueues) Extend(ctx context.Context, q string, d time.Duration, receipts ...string) error {
	m.count("ChangeMessageVisibility", 1)
	return m.Queues.Extend(ctx, q, d, receipts...)
}

// bench is a service whose requests are counted. Messages are handled one after
// the other, as by one warm function.
type bench struct {
	*localtest.Env
	t        *testing.T
	meter    *table.Meter
	queues   meteredQueues
	handlers map[string]fn.MessageHandler
	rows     []string
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, meter: &table.Meter{}, queues: meteredQueues{mu: &sync.Mutex{}, requests: map[string]int{}}, handlers: map[string]fn.MessageHandler{}}
	b.Env = localtest.Open(t, localtest.Options{
		Blob: &blobtest.Memory{},
		// Chance would have a counted operation draw a slice of a limit now and then.
		Chance: func(int64) int64 { return 0 },
		Wrap:   func(inner table.Table) table.Table { return table.Metered(inner, b.meter) },
	}, catalog.With(reminders.DueSpec)...)
	return b
}

// count records the cost of do, by request.
func (b *bench) count(what string, tasks int, do func()) {
	b.meter.Reset()
	clear(b.queues.requests)
	do()
	usage := b.meter.Usage()
	var parts []string
	for _, op := range slices.Sorted(maps.Keys(usage.Requests)) {
		parts = append(parts, fmt.Sprintf("%s %d", op, usage.Requests[op]))
	}
	for _, op := range slices.Sorted(maps.Keys(b.queues.requests)) {
		parts = append(parts, fmt.Sprintf("%s %d", op, b.queues.requests[op]))
	}
	total := usage.Total()
	row := fmt.Sprintf("%-34s %6g WU %6g RU", what, total.Write, total.Read)
	if tasks > 0 {
		row += fmt.Sprintf("  (%.2f WU, %.2f RU a task)", total.Write/float64(tasks), total.Read/float64(tasks))
	}
	b.rows = append(b.rows, row, "    "+strings.Join(parts, ", "))
}

// work handles messages until none is left, in batches as from Lambda.
func (b *bench) work() {
	for busy := true; busy; {
		busy = false
		for name, handle := range b.handlers {
			got, err := b.queues.Queues.Receive(b.t.Context(), name, queue.MaxBatch, 0)
			require.NoError(b.t, err)
			if len(got) == 0 {
				continue
			}
			busy = true
			b.queues.requests["ReceiveMessage"]++
			var receipts []string
			for _, m := range got {
				out, err := handle(b.t.Context(), lambda.SQSEvent{Records: []lambda.SQSMessage{{
					MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:x:0:" + name,
					Attributes: map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)},
				}}})
				require.NoError(b.t, err)
				require.Empty(b.t, out.BatchItemFailures)
				receipts = append(receipts, m.Receipt)
			}
			require.NoError(b.t, b.queues.Delete(b.t.Context(), name, receipts...))
		}
	}
}

func (b *bench) post(path string, body any) string {
	return b.Do(b.t, b.A.Key, http.MethodPost, path, body).Require(b.t, http.StatusOK).String(b.t, "run_id")
}

// TestRequests compares the requests of the main operations with the golden
// table, so that the cost of an operation does not rise by accident.
func TestRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.queues.Queues = b.Deps.Queues
		deps := b.Deps
		deps.Queues = b.queues
		for _, name := range events.TaskQueues()[:1] {
			b.handlers[name] = taskworker.Spec.Messages(deps)
		}
		b.handlers[events.Runs] = dispatch.Spec.Messages(deps)

		chain := []map[string]any{task("t0")}
		for i := 1; i < 40; i++ {
			chain = append(chain, task(fmt.Sprintf("t%d", i), fmt.Sprintf("t%d", i-1)))
		}
		wide := []map[string]any{task("root")}
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("p%d", i))
			wide = append(wide, task(names[i], "root"))
		}
		bad := task("bad", "t19")
		bad["config"] = map[string]any{"expression": "params.absent"}
		b.register("chain", chain...)
		b.register("wide", append(wide, task("join", names...))...)
		b.register("failing", append(slices.Clone(chain[:20]), bad)...)
		body := func(flow string) map[string]any { return map[string]any{"flow_name": flow, "flow_version": "1"} }
		for _, flow := range []string{"chain", "wide", "failing"} { // to warm up
			b.post("/runs", body(flow))
			b.work()
		}
		for range 40 { // a process draws limits of its workspace in slices
			b.post("/runs", body("chain"))
		}
		b.work()

		var id string
		b.count("accept a run", 0, func() { id = b.post("/runs", body("chain")) })
		b.count("40-task chain", 40, b.work)
		b.count("run page, 40 tasks", 0, func() { b.get("/runs/" + id) })
		b.count("log page, archived", 0, func() { b.get("/runs/" + id + "/logs") })
		b.post("/runs", body("wide"))
		b.count("100-wide fan-out and join", 102, b.work)
		id = b.post("/runs", body("failing"))
		b.work()
		b.count("retry from failed, 20 reused", 0, func() { b.post("/runs/"+id+"/retry-from-failed", nil) })
		b.count("its run, 20 reused and 1 failing", 21, b.work)
		id = b.post("/runs", body("chain"))
		b.count("cancel a queued run", 0, func() { b.post("/runs/"+id+"/cancel", nil) })
		b.count("its end", 0, b.work)
		b.count("page of 5 runs", 0, func() { b.get("/runs?limit=5") })
		nightly := &launch.Occurrence{Kind: launch.Schedule, ID: "nightly", Instant: b.Clock.Now()}
		accept := func() { b.accept(launch.Request{Flow: "chain", Version: "1", Occurrence: nightly}) }
		b.count("accept a schedule's run", 0, accept)
		b.count("the same once more", 0, accept)
		b.Environments(b.t, b.A, "prod")
		b.count("accept a run in prod", 0, func() {
			b.accept(launch.Request{Flow: "chain", Version: "1", Environment: "prod", Trigger: launch.Manual})
		})

		b.timed(deps)

		golden := filepath.Join(testdata, "requests.golden")
		got := strings.Join(b.rows, "\n") + "\n"
		if *update {
			require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		assert.Equal(t, string(want), got, "run this test with -update if the change is meant")
	})
}

// timed counts the cost of timed work of two kinds. Entries that are not due
// cost nothing.
func (b *bench) timed(deps fn.Deps) {
	tick, found := catalog.Find(catalog.With(reminders.DueSpec), schedulertick.Spec.Name)
	require.True(b.t, found)
	handle := tick.Handle(deps)
	triggered := func(want int) func() {
		return func() {
			out, err := handle(b.t.Context(), json.RawMessage(`{"event_type":"scheduler_tick"}`))
			require.NoError(b.t, err)
			require.Equal(b.t, want, out.(events.SchedulerTickResult).Triggered)
		}
	}
	b.count("tick, nothing due", 0, triggered(0))
	// The shards of entries depend on their workspace, and the pages of a shard on
	// its entries: a workspace with a random id would count differently at times.
	const org = "org_timed"
	var writes []table.Write
	now := b.Env.Clock.Now()
	for i := range 2000 {
		at := now.Add(time.Duration(i-999) * time.Second)
		writes = append(writes, table.Put{Item: reminders.New(reminders.Reminder, org, fmt.Sprint("r", i), at, 0)})
	}
	require.NoError(b.t, b.Deps.Table.BatchWrite(b.t.Context(), writes))
	b.handlers = map[string]fn.MessageHandler{reminders.Reminder.Queue(): reminders.DueSpec.Messages(deps)}
	b.count("tick, 1,000 of 2,000 due", 0, triggered(1000))
	b.count("their function: read, end", 0, b.work)
}

// accept creates a run without a user's request.
func (b *bench) accept(req launch.Request) runstate.Run {
	d := b.Deps
	l := &launch.Launcher{Table: d.Table, Queues: d.Queues, Blob: d.Blob, Clock: d.Clock, Log: d.Log, Broker: d.Broker, Quota: d.Quota}
	run, err := l.Accept(b.t.Context(), b.A.OrgID, req)
	require.NoError(b.t, err)
	return run
}

// TestVariablesAreFrozenAtAcceptance: a run sees the variables of its
// environment as they were when it was accepted.
func TestVariablesAreFrozenAtAcceptance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.queues.Queues = b.Deps.Queues
		b.handlers[events.Tasks("nano")], b.handlers[events.Runs] = taskworker.Spec.Messages(b.Deps), dispatch.Spec.Messages(b.Deps)
		shows := task("shows")
		shows["config"] = map[string]any{"expression": "vars.REGION + ' of ' + run.environment"}
		b.register("f", shows)
		set := func(region string) {
			body := map[string]any{"variables": map[string]string{"REGION": region}}
			b.Do(t, b.A.Key, http.MethodPut, "/environments/default/variables", body).Require(t, http.StatusOK)
		}
		set("eu")
		run := b.accept(launch.Request{Flow: "f", Version: "1", Trigger: launch.Manual})
		set("us")
		b.work()
		got := b.Do(t, b.A.Key, http.MethodGet, "/runs/"+run.ID, nil).Require(t, http.StatusOK)
		assert.Contains(t, string(got.Body), `"output":"eu of default"`)
	})
}

func task(name string, deps ...string) map[string]any {
	t := map[string]any{"name": name, "type": "transform", "config": map[string]any{"expression": "1"}}
	if len(deps) > 0 {
		t["depends_on"] = deps
	}
	return t
}

func (b *bench) register(name string, tasks ...map[string]any) {
	b.Do(b.t, b.A.Key, http.MethodPost, "/flows", map[string]any{
		"flow_name": name, "flow_version": "1", "flow_spec": map[string]any{"tasks": tasks},
	}).Require(b.t, http.StatusOK)
}

func (b *bench) get(path string) {
	b.Do(b.t, b.A.Key, http.MethodGet, path, nil).Require(b.t, http.StatusOK)
}
