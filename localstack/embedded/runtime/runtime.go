// Package runtime replaces the services that invoke functions in the cloud: it
// passes messages from queues to functions as SQS events, ticks every minute,
// and invokes any function by name.
package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"

	"millrace/events"
	"millrace/localstack/embedded/share"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// Region is the region in the ARNs of embedded queues.
const Region = "local"

// DefaultWorkers is the number of messages of one queue that are handled
// concurrently. A workspace that is alone can have 64 of them; see package
// share.
const DefaultWorkers = 72

// failedDelay is the delay of a message after its first failure.
const failedDelay = 5 * time.Second

// ErrUnknownFunction means that no invocable function has that name.
var ErrUnknownFunction = errors.New("runtime: unknown function")

// Config configures a Runtime.
type Config struct {
	Specs   []fn.Spec
	Deps    fn.Deps
	Workers int // per queue; 0 means DefaultWorkers
}

// Runtime runs the event functions of a catalog.
type Runtime struct {
	queues   queue.Queues
	receive  sharing // receives from the queues
	clock    clock.Clock
	log      *slog.Logger
	metrics  *telemetry.Metrics
	workers  map[string]*share.Slots      // by queue
	messages map[string]fn.MessageHandler // by function
	handlers map[string]fn.Handler
	feeds    map[string]string // queue to function
	parked   *share.Slots      // handlers that wait without a worker

	trackedMu sync.Mutex
	tracked   []*Handed // of invocations whose messages are awaited

	stop     context.CancelFunc // stops receiving
	kill     context.CancelFunc // cancels handlers
	handling context.Context
	pollers  sync.WaitGroup
	running  sync.WaitGroup
	next     chan func() // to a goroutine that has handled its previous message
	resting  atomic.Int64
}

// New builds the event functions of the catalog. Nothing runs before Start.
func New(cfg Config) (*Runtime, error) {
	r := &Runtime{
		queues: cfg.Deps.Queues, clock: cfg.Deps.Clock, log: cfg.Deps.Log, metrics: cfg.Deps.Metrics,
		workers: map[string]*share.Slots{}, parked: share.New(MaxParked),
		messages: map[string]fn.MessageHandler{}, handlers: map[string]fn.Handler{}, feeds: map[string]string{},
		next: make(chan func()),
	}
	if r.clock == nil {
		r.clock = clock.System{}
	}
	var shares bool
	if r.receive, shares = r.queues.(sharing); !shares {
		r.receive = asTheyCome{r.queues}
	}
	deps := cfg.Deps
	deps.Queues = tracking{deps.Queues}
	for _, spec := range cfg.Specs {
		switch {
		case spec.Messages != nil:
			r.messages[spec.Name] = spec.Messages(deps)
		case spec.Handle != nil:
			r.handlers[spec.Name] = spec.Handle(deps)
		}
		feeds := make([]string, 0, len(spec.Trigger.Queues)+len(spec.Trigger.Due))
		for _, t := range spec.Trigger.Queues {
			feeds = append(feeds, t.Queue)
		}
		for _, kind := range spec.Trigger.Due {
			feeds = append(feeds, kind.Queue())
		}
		for _, name := range feeds {
			if other, taken := r.feeds[name]; taken {
				return nil, fmt.Errorf("runtime: queue %s feeds %s and %s", name, other, spec.Name)
			}
			r.feeds[name] = spec.Name
			r.workers[name] = share.New(cmp.Or(cfg.Workers, DefaultWorkers))
		}
	}
	return r, nil
}

// Start starts receiving from the queues. If tick is set, functions that run
// every minute are invoked at each full minute.
func (r *Runtime) Start(specs []fn.Spec, tick bool) {
	receive, stop := context.WithCancel(context.Background())
	r.handling, r.kill = context.WithCancel(context.Background())
	r.stop = stop
	for name, function := range r.feeds {
		r.pollers.Go(func() { r.poll(receive, name, function) })
	}
	for _, spec := range specs {
		if tick && spec.Trigger.EveryMinute {
			r.pollers.Go(func() { r.everyMinute(receive, spec.Name) })
		}
	}
}

// Drain receives no more messages and ends the waits of parked handlers.
// Handlers finish what they have begun and begin nothing new. It does not wait
// for them: [Runtime.Stop] does.
func (r *Runtime) Drain() { r.stop() }

// Handling returns the number of messages of a function that are being handled,
// without those of parked handlers.
func (r *Runtime) Handling(function string) (n int) {
	for name, feeds := range r.feeds {
		if feeds == function {
			n += r.workers[name].Taken()
		}
	}
	return n
}

// Stop calls [Runtime.Drain], waits until all handlers have finished or ctx
// ends, and then cancels them. Unfinished messages are delivered again at the
// next start.
func (r *Runtime) Stop(ctx context.Context) {
	r.Drain()
	r.pollers.Wait()
	done := make(chan struct{})
	go func() { r.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		r.kill()
		<-done
	}
	r.kill()
}

// about returns a context whose subject is a function.
func about(ctx context.Context, function string) context.Context {
	return telemetry.With(ctx, &telemetry.Subject{Function: function})
}

// poll passes the messages of a queue to their function, each in its own
// goroutine, so that a long task does not delay others. Most are handed on by
// their sender.
func (r *Runtime) poll(ctx context.Context, name, function string) {
	handling, handle, workers := about(r.handling, function), r.messages[function], r.workers[name]
	begin := func(m queue.Delivery) {
		r.run(ctx, func() {
			h := &handler{runtime: r, workers: workers, workspace: m.Group, stop: ctx}
			defer h.done()
			r.handle(queue.WithParker(handling, h), name, m, handle)
		})
	}
	defer r.receive.Hand(ctx, name, workers, begin)()
	for {
		got, err := r.receive.ReceiveShared(ctx, name, queue.MaxBatch, queue.MaxWait, workers)
		if err != nil && ctx.Err() == nil {
			r.log.ErrorContext(handling, "receive failed", "queue", name, "error", err)
			if clock.Sleep(ctx, time.Second) != nil {
				return
			}
		}
		for _, m := range got {
			begin(m)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// maxResting is the number of goroutines that wait for another message.
const maxResting = 16

// run calls do in a goroutine. It reuses a waiting one if possible, because its
// stack has grown to the size that handlers need, which would cost much of a
// short message's time. The goroutines end with ctx.
func (r *Runtime) run(ctx context.Context, do func()) {
	select {
	case r.next <- do:
		return
	default:
	}
	r.running.Go(func() {
		for {
			do()
			if r.resting.Add(1) > maxResting {
				r.resting.Add(-1)
				return
			}
			select {
			case do = <-r.next:
				r.resting.Add(-1)
			case <-ctx.Done():
				r.resting.Add(-1)
				return
			}
		}
	})
}

// Waiting tells why no message of a workspace in a queue is handled now, as a
// sentence; empty if nothing is in its way.
func (r *Runtime) Waiting(name, workspace string) string {
	workers, ok := r.workers[name]
	if !ok {
		return ""
	}
	return workers.Why(workspace, "a worker", "that run tasks of its mode")
}

// handle passes one message to its function and deletes it if that succeeds.
func (r *Runtime) handle(ctx context.Context, name string, m queue.Delivery, handle fn.MessageHandler) {
	defer func() {
		if p := recover(); p != nil {
			r.log.ErrorContext(ctx, "function panicked", "queue", name, "error", fmt.Sprint(p), "traceback", string(debug.Stack()))
			r.again(ctx, name, m)
		}
	}()
	out, err := handle(ctx, lambda.SQSEvent{Records: []lambda.SQSMessage{{
		MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body),
		Attributes: map[string]string{
			"ApproximateReceiveCount": strconv.Itoa(m.Receives),
			"SentTimestamp":           strconv.FormatInt(m.Sent.UnixMilli(), 10),
			"MessageGroupId":          m.Group,
		},
		EventSource: "aws:sqs", EventSourceARN: "arn:aws:sqs:" + Region + ":000000000000:" + name, AWSRegion: Region,
	}}})
	if err != nil {
		r.log.ErrorContext(ctx, "function failed", "queue", name, "error", err)
		r.again(ctx, name, m)
		return
	}
	if len(out.BatchItemFailures) > 0 {
		r.failed(name, m)
		return
	}
	defer r.settle(name, m.Body)
	if err := r.queues.Delete(context.WithoutCancel(ctx), name, m.Receipt); err != nil {
		r.log.ErrorContext(ctx, "message not deleted", "queue", name, "error", err)
	}
}

// again makes a failed message visible soon, unless its function chose a time.
func (r *Runtime) again(ctx context.Context, name string, m queue.Delivery) {
	defer r.failed(name, m)
	delay := min(time.Duration(m.Receives)*failedDelay, time.Minute)
	if err := r.queues.Extend(context.WithoutCancel(ctx), name, delay, m.Receipt); err != nil {
		r.log.WarnContext(ctx, "message not deferred", "queue", name, "error", err)
	}
}

// failed records that a message was not handled. After its last delivery it is
// given up.
func (r *Runtime) failed(name string, m queue.Delivery) {
	if m.Receives >= queue.MaxReceives {
		r.settle(name, m.Body)
	}
}

// everyMinute invokes a function at each full minute.
func (r *Runtime) everyMinute(ctx context.Context, name string) {
	payload, _ := json.Marshal(events.SchedulerTick{EventType: events.TickType, MaxDue: events.DefaultMaxDue})
	for {
		now := time.Now()
		if clock.Sleep(ctx, now.Truncate(time.Minute).Add(time.Minute).Sub(now)) != nil {
			return
		}
		if _, err := r.Invoke(ctx, name, payload); err != nil && ctx.Err() == nil {
			r.log.ErrorContext(about(ctx, name), "tick failed", "error", err)
		}
	}
}

// Invoke runs a function with an event, as the Lambda Invoke API does, and
// returns its result as JSON. Errors: ErrUnknownFunction, and those of the
// function.
func (r *Runtime) Invoke(ctx context.Context, name string, payload json.RawMessage) (json.RawMessage, error) {
	var answer any
	var err error
	ctx = about(ctx, name)
	if handle, ok := r.handlers[name]; ok {
		began := r.clock.Now()
		answer, err = handle(ctx, payload)
		r.metrics.Call(name, r.clock.Now().Sub(began), string(errs.CodeOf(err)))
	} else if handle, ok := r.messages[name]; ok {
		var batch lambda.SQSEvent
		if err := json.Unmarshal(payload, &batch); err != nil {
			return nil, fmt.Errorf("the payload is not an SQS event: %w", err)
		}
		answer, err = handle(ctx, batch)
	} else {
		return nil, fmt.Errorf("%w: %s", ErrUnknownFunction, name)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(answer)
}
