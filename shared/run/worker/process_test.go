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
	"millrace/shared/platform/signal"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
	"millrace/shared/run/worker"
	"millrace/shared/web/fn"
)

// errAgain says that a message is to be delivered again.
var errAgain = errors.New("the message is to be delivered again")

// handed is a worker that a test hands messages to in place of their queue.
type handed struct{ *worker.Worker }

// Handle hands over one message. Errors: errAgain.
func (h handed) Handle(ctx context.Context, m events.Run, receives int) error {
	out, err := h.Messages(ctx, batch(receives, m))
	if err == nil && len(out.BatchItemFailures) > 0 {
		err = errAgain
	}
	return err
}

// batch is messages as their queue delivers them. Their ids are "0", "1" and so on.
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

// hand makes a worker, one of several, that does what a test hands to it.
func (w *world) hand(boot string, change ...func(*worker.Config)) handed {
	cfg := w.c.Config
	cfg.Boot, cfg.Sole, cfg.Hub, cfg.Queues = boot, false, &signal.Hub{}, w.queues
	cfg.Log = slog.New(slog.DiscardHandler) // what is handed over cannot be deferred
	for _, c := range change {
		c(&cfg)
	}
	return handed{worker.New(cfg)}
}

// frozen is a change of a worker to one whose process stands still between
// messages, with a log buffer of its own.
func (w *world) frozen(cfg *worker.Config) {
	cfg.Resident = false
	cfg.Logs = &runlog.Store{Table: cfg.Table, Blob: cfg.Blob, Clock: clock.System{}, Log: cfg.Log}
}

// process is one of several processes that take messages from the world's
// queues, as the functions of a cloud do.
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

// kill ends the process at once: nothing that it does from now on comes to pass.
func (p *process) kill() {
	p.Kill()
	now, cancel := context.WithCancel(context.Background())
	cancel()
	p.rt.Stop(now)
}

// work has 16 workers hand the messages of all queues to a worker.
func (w *world) work(c *worker.Worker) *runtime.Runtime {
	spec := fn.Spec{Name: "worker", Messages: func(fn.Deps) fn.MessageHandler { return c.Messages }}
	for _, q := range events.AllQueues() {
		spec.Trigger.Queues = append(spec.Trigger.Queues, fn.QueueTrigger{Queue: q, Batch: 10})
	}
	// 16 for the one workspace that there is.
	rt, err := runtime.New(runtime.Config{Specs: []fn.Spec{spec}, Deps: fn.Deps{Queues: c.Queues, Log: c.Log}, Workers: 17})
	require.NoError(w.t, err)
	rt.Start([]fn.Spec{spec}, false)
	w.t.Cleanup(func() { rt.Stop(context.Background()) })
	return rt
}

// tick has what is due looked at, as the scheduler's tick does.
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

// ends waits until a run is over and off the due index, for no longer than within.
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

// dead counts the dead letters of the tier's queue and of the runs' queue.
func (w *world) dead() (n int) {
	for _, q := range []string{events.Tasks("nano"), events.Runs} {
		stats, err := w.queues.Stats(w.ctx, q+"-dead")
		require.NoError(w.t, err)
		n += stats.Visible + stats.Delayed + stats.InFlight
	}
	return n
}
