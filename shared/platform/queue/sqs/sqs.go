// Package sqs is the [queue.Queues] driver for Amazon SQS standard queues.
//
// A message's group is sent as its message group, which makes a standard queue
// a fair one: groups take turns, without an order within a group.
//
// SQS accepts bodies of up to 1 MiB, as the port does, and 1 MiB in one
// request. (The limit was 256 KiB before August 2025. Queues created earlier
// keep that limit until their MaximumMessageSize is raised, as [CreateQueues]
// does.) Bodies over [Config.Inline] are stored in the object store and
// referenced by the message (a claim check): Receive and [Queues.Messages]
// fetch them, and they are deleted after the message. A message that expires in
// its queue leaves an object behind under <group>/messages/, which is garbage
// after 14 days.
package sqs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/awsretry"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// The SDK's retryer is the only layer that retries whole requests: up to 4
// attempts with exponential backoff and jitter, at most 2 s between two
// attempts. Entries that a successful request reports as failed are sent again
// up to the same number of attempts.
const (
	maxAttempts = 4
	maxBackoff  = 2 * time.Second
)

// requests is the number of concurrent requests of one call.
const requests = 8

// defaultInline leaves room for 10 bodies in one Lambda invocation (6 MB),
// however many of their characters JSON escapes.
const defaultInline = 256 << 10

// Config selects the queues and how to reach them.
type Config struct {
	// Prefix is prepended to the port's queue names, e.g. "prod-".
	Prefix string
	// AWS loads region, credentials and endpoint on first use; nil means those
	// of the environment.
	AWS func(ctx context.Context) (aws.Config, error)
	// Objects stores bodies over Inline; nil sends every body in its message.
	Objects blob.Store
	// Inline is the largest body, in bytes, that is sent in the message if Objects
	// is set; 0 means 256 KiB.
	Inline int
	// Clock dates the keys of stored bodies; nil means the system clock.
	Clock clock.Clock
	// Log receives a warning for objects that could not be removed; nil discards
	// it.
	Log *slog.Logger
}

// Queues is the SQS driver. Create it with New.
type Queues struct {
	cfg     Config
	backoff time.Duration // longest pause between attempts

	mu     sync.Mutex // guards the lazy client and urls
	client *sqs.Client
	urls   map[string]string // by the port's name
}

var _ queue.Queues = (*Queues)(nil)

// New returns queues. It makes no request: the client is built, and each
// queue's URL looked up, on first use.
func New(cfg Config) *Queues {
	if cfg.AWS == nil {
		cfg.AWS = awsenv.Load
	}
	if cfg.Inline == 0 {
		cfg.Inline = defaultInline
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Queues{cfg: cfg, backoff: maxBackoff, urls: make(map[string]string)}
}

// open returns the client and the queue's URL.
func (q *Queues) open(ctx context.Context, name string) (*sqs.Client, *string, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	client, err := q.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	q.mu.Lock()
	url, known := q.urls[name]
	q.mu.Unlock()
	if known {
		return client, &url, nil
	}
	out, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(q.cfg.Prefix + name)})
	if err != nil {
		return nil, nil, q.wrap("look up", name, err)
	}
	q.mu.Lock()
	q.urls[name] = *out.QueueUrl
	q.mu.Unlock()
	return client, out.QueueUrl, nil
}

// connect returns the client. An error is not cached: the next call tries
// again.
func (q *Queues) connect(ctx context.Context) (*sqs.Client, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.client == nil {
		// The client outlives the first caller, so its cancellation must not apply.
		base, err := q.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("sqs: %w", err)
		}
		q.client = sqs.NewFromConfig(base, func(o *sqs.Options) {
			o.Retryer = retry.AddWithErrorCodes(awsretry.New(maxAttempts, q.backoff), slices.Collect(maps.Keys(throttled))...)
		})
	}
	return q.client, nil
}

// forget drops a queue's cached URL, for a queue that was deleted and may be
// created again.
func (q *Queues) forget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.urls, name)
}

// seconds rounds d up to whole seconds.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }
