package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/schedulertick"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/proof/faults"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/notify"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
	"millrace/shared/web/fn"
)

// errAgain means that a message must be delivered again.
var errAgain = errors.New("the message is to be delivered again")

// handed is a worker that gets its messages from a test instead of a queue.
type handed struct{ *worker.Worker }

// Handle handles one message. Errors: errAgain.
func (h handed) Handle(ctx context.Context, m events.Run, receives int) error {
	out, err := h.Messages(ctx, batch(receives, m))
	if err == nil && len(out.BatchItemFailures) > 0 {
		err = errAgain
	}
	return err
}

// batch returns messages as their queue delivers them. Their ids are "0", "1"
// and so on.
func batch(receives int, msgs ...events.Run) (out lambda.SQSEvent) {
	for i, m := range msgs {
		body, _ := json.Marshal(m)
		from := events.Tasks("nano")
		if m.Kind == events.RunReconcile {
			from = events.Runs
		}
		out.Records = append(out.Records, lambda.SQSMessage{
			MessageId: itoa(i), ReceiptHandle: "none", Body: string(body), EventSourceARN: "arn:aws:sqs:local:000000000000:" + from,
			Attributes: map[string]string{
				"ApproximateReceiveCount": strconv.Itoa(receives), "SentTimestamp": strconv.FormatInt(time.Now().UnixMilli(), 10),
			},
		})
	}
	return out
}

// hand returns a worker, one of several, for messages from the test.
func (w *world) hand(boot string, change ...func(*worker.Config)) handed {
	cfg := w.c.Config
	cfg.ProcessID, cfg.Exclusive, cfg.Broker, cfg.Queues = boot, false, &notify.Broker{}, w.queues
	cfg.Log = slog.New(slog.DiscardHandler) // such messages cannot be deferred
	for _, c := range change {
		c(&cfg)
	}
	return handed{worker.New(cfg)}
}

// frozen is a change of a worker to one in a process that is suspended between
// messages, with a log buffer of its own.
func (w *world) frozen(cfg *worker.Config) {
	cfg.LongLived = false
	cfg.Logs = &runlog.Store{Table: cfg.Table, Blob: cfg.Blob, Clock: clock.System{}, Log: cfg.Log}
}

// process is one of several processes that receive messages from the world's
// queues, like the functions of a cloud.
type process struct {
	*faults.Process
	c  *worker.Worker
	rt *runtime.Runtime
}

// process starts a process of 16 workers.
func (w *world) process(boot string, change ...func(*worker.Config)) *process {
	p := &process{Process: faults.NewPlan(w.t, 1, faults.Rates{}, w.table, clock.System{}).Process(boot, nil)}
	p.c = w.hand(boot, append([]func(*worker.Config){func(cfg *worker.Config) {
		cfg.Table, cfg.Queues = p.Table(), p.Queues(w.queues)
		cfg.Logs = &runlog.Store{Table: cfg.Table, Blob: cfg.Blob, Clock: clock.System{}, Log: cfg.Log}
	}}, change...)...).Worker
	p.rt = w.work(p.c)
	return p
}

// kill ends the process at once: all its requests fail from now on.
func (p *process) kill() {
	p.Kill()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	p.rt.Stop(now)
}

// work starts 16 workers that pass the messages of all queues to a worker.
func (w *world) work(c *worker.Worker) *runtime.Runtime {
	spec := fn.Spec{Name: "worker", Messages: func(fn.Deps) fn.MessageHandler { return c.Messages }}
	for _, q := range events.AllQueues() {
		spec.Trigger.Queues = append(spec.Trigger.Queues, fn.QueueTrigger{Queue: q, Batch: 10})
	}
	// 16 for the only workspace.
	rt, err := runtime.New(runtime.Config{Specs: []fn.Spec{spec}, Deps: fn.Deps{Queues: c.Queues, Log: c.Log}, Workers: 17})
	require.NoError(w.t, err)
	rt.Start([]fn.Spec{spec}, false)
	w.t.Cleanup(func() { rt.Stop(context.Background()) })
	return rt
}

// tick reconciles what is due, like the scheduler's tick.
func (w *world) tick() {
	tick := schedulertick.Spec.Handle(fn.Deps{Table: w.plain, Queues: w.queues, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)})
	_, err := tick(context.WithoutCancel(w.ctx), json.RawMessage(`{"event_type":"scheduler_tick"}`))
	assert.NoError(w.t, err)
}

// ticking ticks at each full minute until the test ends.
func (w *world) ticking() {
	ctx, stop := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	w.t.Cleanup(func() { stop(); wg.Wait() })
	wg.Go(func() {
		for {
			now := time.Now()
			select {
			case <-ctx.Done():
				return
			case <-time.After(now.Truncate(time.Minute).Add(time.Minute).Sub(now)):
				w.tick()
			}
		}
	})
}

// ends waits, at most within, until a run has ended and left the due index.
func (w *world) ends(id string, within time.Duration) (run runstate.Run) {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(time.Second) {
		run = w.get(id)
		if run.Status.RunEnded() && run.Archived {
			return run
		}
		if time.Since(began) > within {
			require.Fail(w.t, "the run did not end", "within %s: it is %s %s", within, run.Status, run.Error)
		}
	}
}

// dead returns the number of dead letters of the tier's queue and of the runs'
// queue.
func (w *world) dead() (n int) {
	for _, q := range []string{events.Tasks("nano"), events.Runs} {
		stats, err := w.queues.Stats(w.ctx, q+"-dead")
		require.NoError(w.t, err)
		n += stats.Visible + stats.Delayed + stats.InFlight
	}
	return n
}
