// Package eventbridge is the [bus.Bus] driver for Amazon EventBridge.
//
// EventBridge accepts 10 events and 1 MB in one PutEvents request (256 KiB
// before 2026). The driver keeps to the port's smaller limit, which every
// target of a rule accepts.
package eventbridge

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/smithy-go"
	"github.com/cenkalti/backoff/v5"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/awsretry"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
)

// The SDK's retryer is the only layer that retries whole requests: up to 4
// attempts with exponential backoff and jitter, at most 2 s between two
// attempts. Entries that an accepted request reports as failed are sent again
// up to the same number of attempts.
const (
	maxAttempts = 4
	maxBackoff  = 2 * time.Second
)

// permanent lists the error codes of entries that would fail again.
var permanent = map[string]bool{
	"InvalidArgument": true, "MalformedDetail": true, "NotAuthorizedForSourceException": true,
	"NotAuthorizedForDetailTypeException": true, "InvalidAccountIdException": true, "ResourceNotFoundException": true,
	"RedactionFailure": true, "AccessDeniedException": true, "ValidationException": true,
}

// Config selects the bus and how to reach it.
type Config struct {
	// Bus is the event bus's name or ARN.
	Bus string
	// AWS loads region, credentials and endpoint on first use; nil means those
	// of the environment.
	AWS func(ctx context.Context) (aws.Config, error)
}

// Bus is the EventBridge driver. Create it with New.
type Bus struct {
	cfg     Config
	backoff time.Duration // longest pause between attempts

	mu     sync.Mutex // guards the lazy client
	client *eventbridge.Client
}

var _ bus.Bus = (*Bus)(nil)

// New returns a bus. It makes no request: the client is built on first use.
func New(cfg Config) *Bus {
	if cfg.AWS == nil {
		cfg.AWS = awsenv.Load
	}
	return &Bus{cfg: cfg, backoff: maxBackoff}
}

// connect returns the client. An error is not cached: the next call tries
// again.
func (b *Bus) connect(ctx context.Context) (*eventbridge.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		// The client outlives the first caller, so its cancellation must not apply.
		base, err := b.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("eventbridge: %w", err)
		}
		b.client = eventbridge.NewFromConfig(base, func(o *eventbridge.Options) {
			o.Retryer = awsretry.New(maxAttempts, b.backoff)
		})
	}
	return b.client, nil
}

// Publish sends the events, one request after the other. EventBridge does not
// preserve any order.
func (b *Bus) Publish(ctx context.Context, events ...bus.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range events {
		if err := events[i].Check(); err != nil {
			return err
		}
	}
	if len(events) == 0 {
		return nil
	}
	client, err := b.connect(ctx)
	if err != nil {
		return err
	}
	for part := range batches(events) {
		if err := b.put(ctx, client, part); err != nil {
			return fmt.Errorf("eventbridge: publish to %s: %w", b.cfg.Bus, err)
		}
	}
	return nil
}

// batches splits events into requests of at most MaxBatch events and MaxEntry
// bytes.
func batches(events []bus.Event) iter.Seq[[]bus.Event] {
	return func(yield func([]bus.Event) bool) {
		first, size := 0, 0
		for i := range events {
			n := events[i].Size()
			if i-first == bus.MaxBatch || i > first && size+n > bus.MaxEntry {
				if !yield(events[first:i]) {
					return
				}
				first, size = i, 0
			}
			size += n
		}
		yield(events[first:])
	}
}

func (b *Bus) put(ctx context.Context, client *eventbridge.Client, events []bus.Event) error {
	entries := make([]types.PutEventsRequestEntry, len(events))
	for i, e := range events {
		now := time.Now()
		e = e.Complete(now, ids.New(now))
		detail, err := e.Body()
		if err != nil {
			return err
		}
		entries[i] = types.PutEventsRequestEntry{
			EventBusName: &b.cfg.Bus, Source: aws.String(bus.Source), DetailType: aws.String(e.DetailType),
			Detail: aws.String(string(detail)), Resources: e.Resources(), Time: aws.Time(e.Time),
		}
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = min(b.backoff, 100*time.Millisecond), b.backoff
	for attempt := 1; ; attempt++ {
		out, err := client.PutEvents(ctx, &eventbridge.PutEventsInput{Entries: entries})
		if err != nil {
			return translate(err)
		}
		again, err := failures(entries, out)
		if len(again) == 0 || attempt == maxAttempts {
			return err
		}
		if failure, ok := errors.AsType[*refusal](err); ok && permanent[failure.code] {
			return err
		}
		if err := clock.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return err
		}
		entries = again
	}
}

// refusal is an entry that EventBridge did not accept.
type refusal struct{ detailType, code, message string }

func (r *refusal) Error() string {
	return fmt.Sprintf("event %s rejected (%s: %s)", r.detailType, r.code, r.message)
}

// failures returns the failed entries and the error of one of them, preferably
// of one that would fail again.
func failures(entries []types.PutEventsRequestEntry, out *eventbridge.PutEventsOutput) ([]types.PutEventsRequestEntry, error) {
	if out.FailedEntryCount == 0 {
		return nil, nil
	}
	if len(out.Entries) != len(entries) {
		return nil, fmt.Errorf("%d of %d events rejected, without saying which", out.FailedEntryCount, len(entries))
	}
	var again []types.PutEventsRequestEntry
	var worst *refusal
	for i, result := range out.Entries {
		if result.ErrorCode == nil {
			continue
		}
		again = append(again, entries[i])
		r := &refusal{aws.ToString(entries[i].DetailType), *result.ErrorCode, aws.ToString(result.ErrorMessage)}
		if worst == nil || permanent[r.code] {
			worst = r
		}
	}
	if worst == nil {
		return nil, fmt.Errorf("%d of %d events rejected, without saying which", out.FailedEntryCount, len(entries))
	}
	return again, worst
}

// translate turns a vendor's error into the port's; others keep their chain, so
// that a cancelled context stays visible.
func translate(err error) error {
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "PutEventsRequestTooLong" {
		return fmt.Errorf("%w (%s)", bus.ErrLimit, api.ErrorCode())
	}
	return err
}
