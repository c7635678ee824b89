package sqs_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/semaphore"

	"millrace/localstack/emulators"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/queuetest"
	"millrace/shared/platform/queue/sqs"
)

// load returns the emulator's configuration.
func load(base aws.Config) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) { return base, nil }
}

// newPrefix creates queues under a unique prefix.
func newPrefix(t *testing.T, base aws.Config, defs ...queue.Definition) string {
	t.Helper()
	prefix := ids.Token(9) + "-"
	require.NoError(t, sqs.CreateQueues(t.Context(), awssqs.NewFromConfig(base), prefix, defs))
	return prefix
}

// gentle admits one receiver at a time, returning nothing to the others, and
// blocks senders while there is a backlog.
type gentle struct {
	queue.Queues
	receiver sync.Mutex
	backlog  *semaphore.Weighted
}

func (g *gentle) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	if err := g.backlog.Acquire(ctx, int64(len(msgs))); err != nil {
		return err
	}
	return g.Queues.Send(ctx, name, msgs...)
}

func (g *gentle) Delete(ctx context.Context, name string, receipts ...string) error {
	err := g.Queues.Delete(ctx, name, receipts...)
	g.backlog.Release(int64(len(receipts)))
	return err
}

func (g *gentle) Receive(ctx context.Context, name string, max int, wait time.Duration) ([]queue.Delivery, error) {
	if !g.receiver.TryLock() {
		timer := time.NewTimer(min(wait, 10*time.Millisecond))
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer g.receiver.Unlock()
	return g.Queues.Receive(ctx, name, max, wait)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	base := emulators.SQS(t).Config()
	newQueues := func(t *testing.T, defs ...queue.Definition) queue.Queues {
		return sqs.New(sqs.Config{Prefix: newPrefix(t, base, defs...), AWS: load(base)})
	}
	queuetest.Exercise(t, newQueues,
		queuetest.Gap{Case: "Groups/Share", Reason: "moto keeps the groups of a standard queue but serves it first in, first out"},
		queuetest.Gap{
			Case:   "Concurrency/EachOnce",
			Reason: "moto takes no lock between finding a message visible and hiding it, so hands one to two receivers; its time goes with the square of a queue's length",
			Wrap: func(next queue.Queues) queue.Queues {
				return &gentle{Queues: next, backlog: semaphore.NewWeighted(4 * queue.MaxBatch)}
			},
		},
	)
}
