// Package triggers invokes functions: with the messages of their queues, like
// Lambda's event source mappings, and on schedules, like EventBridge's rules.
package triggers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/localstack/cloud/resources"
	"millrace/shared/platform/clock"
)

// atOnce is the number of batches of a queue that are handled concurrently.
// Lambda scales to a thousand; this is one machine.
const atOnce = 10

// poll is the duration of a receive request in seconds.
const poll = 10

// pause is how long a queue is not polled after an error.
const pause = time.Second

// Config configures Triggers.
type Config struct {
	SQS               func(function string) *sqs.Client // Lambda polls a queue in its function's role
	Region, AccountID string
	// Invoke invokes a function and returns its answer.
	Invoke func(ctx context.Context, function string, payload []byte) ([]byte, error)
	Log    *slog.Logger
}

// Triggers are the triggers of a deployment.
type Triggers struct {
	Config
	running context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
}

// New returns triggers that are not started.
func New(cfg Config) *Triggers {
	t := &Triggers{Config: cfg}
	t.running, t.stop = context.WithCancel(context.Background())
	return t
}

// Feed starts passing the messages of a queue to its function.
func (t *Triggers) Feed(m resources.Mapping) {
	slots := make(chan struct{}, atOnce)
	t.work.Go(func() {
		for t.running.Err() == nil {
			select {
			case slots <- struct{}{}:
			case <-t.running.Done():
				return
			}
			batch, err := t.receive(t.running, m, poll)
			if err != nil || len(batch) == 0 {
				<-slots
				if err != nil && t.running.Err() == nil {
					t.Log.Error("no messages received", "queue", m.Queue, "error", err)
					t.wait(time.Now().Add(pause))
				}
				continue
			}
			t.work.Go(func() {
				defer func() { <-slots }()
				if err := t.handle(t.running, m, batch); err != nil && t.running.Err() == nil {
					t.Log.Error("messages not handled: they are delivered again", "queue", m.Queue, "function", m.Function, "messages", len(batch), "error", err)
				}
			})
		}
	})
}

// Fire starts a scheduled rule, which fires at full minutes.
func (t *Triggers) Fire(s resources.Schedule) {
	t.work.Go(func() {
		for {
			if !t.wait(time.Now().Truncate(time.Minute).Add(time.Minute)) {
				return
			}
			if _, err := t.Invoke(t.running, s.Function, s.Input); err != nil && t.running.Err() == nil {
				t.Log.Error("rule not fired", "rule", s.Name, "function", s.Function, "error", err)
			}
		}
	})
}

// wait waits until a time. It returns false if the triggers are stopped before.
func (t *Triggers) wait(until time.Time) bool {
	return clock.Sleep(t.running, time.Until(until)) == nil
}

// Stop stops the triggers and waits for batches in progress. Unhandled messages
// are delivered again.
func (t *Triggers) Stop() {
	t.stop()
	t.work.Wait()
}
