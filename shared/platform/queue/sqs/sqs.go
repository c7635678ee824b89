// Package sqs is the [queue.Queues] driver for Amazon SQS standard queues.
//
// A message's group is sent as its message group, which makes a standard queue
// a fair one: groups share it by turns, without an order within them.
//
// SQS takes bodies of up to 1 MiB, as the port does, and 1 MiB in one request.
// (It was 256 KiB before August 2025; queues made before then keep that limit
// until their MaximumMessageSize is raised, as [CreateQueues] does.) Bodies
// over [Config.Inline] are kept in the object store and only named in the
// message (a claim check): Receive and [Queues.Messages] fetch them, and they
// are deleted after the message. A message that expires in its queue leaves an
// object behind under <group>/messages/; of no use once it is 14 days old.
package sqs

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"millrace/shared/platform/awsretry"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// The SDK's retryer is the only layer that repeats requests: up to 4 attempts
// with exponential backoff and jitter, at most 2 s between two. What a request
// that succeeded names as failed is sent again as often.
const (
	maxAttempts = 4
	maxBackoff  = 2 * time.Second
)

// requests is how many requests one call makes at a time.
const requests = 8

// defaultInline leaves room for 10 bodies in one invocation of a Lambda
// function, 6 MB, however many of their characters JSON escapes.
const defaultInline = 256 << 10

// Config says which queues to speak to and how.
type Config struct {
	// Prefix stands before the port's names in those of SQS, e.g. "prod-".
	Prefix string
	// AWS loads region, credentials and endpoint at first use; nil is the
	// SDK's default chain.
	AWS func(ctx context.Context) (aws.Config, error)
	// Objects keeps the bodies over Inline; nil sends all in messages.
	Objects blob.Store
	// Inline is how many bytes of a body are sent in the message when Objects
	// is set; 0 is 256 KiB.
	Inline int
	// Clock dates the keys of kept bodies; nil is the machine's.
	Clock clock.Clock
	// Log is told of objects that could not be removed; nil drops that.
	Log *slog.Logger
}

// Queues is the driver. Make it with New.
type Queues struct {
	cfg     Config
	backoff time.Duration // longest pause between attempts

	mu     sync.Mutex // guards the lazy client and urls
	client *sqs.Client
	urls   map[string]string // by the port's name
}

var _ queue.Queues = (*Queues)(nil)

// New returns queues. It contacts nothing: the client is built, and each
// queue's URL looked up, at first use.
func New(cfg Config) *Queues {
	if cfg.AWS == nil {
		cfg.AWS = func(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }
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

// connect returns the client. A failure is not kept: the next call tries again.
func (q *Queues) connect(ctx context.Context) (*sqs.Client, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.client == nil {
		// The first caller's cancellation must not decide about everybody's client.
		base, err := q.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("sqs: %w", err)
		}
		q.client = sqs.NewFromConfig(base, func(o *sqs.Options) {
			o.Retryer = awsretry.New(maxAttempts, q.backoff)
		})
	}
	return q.client, nil
}

// forget drops a queue's URL, as the queue was deleted and perhaps made again.
func (q *Queues) forget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.urls, name)
}

// seconds rounds up to what SQS counts in.
func seconds(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }
