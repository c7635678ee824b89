package sqs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	"github.com/cenkalti/backoff/v5"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
)

// sentinels maps SQS's error codes to the port's errors, with and without the
// service prefix of the codes in batches.
var sentinels = map[string]error{
	"QueueDoesNotExist":      queue.ErrUnknownQueue,
	"NonExistentQueue":       queue.ErrUnknownQueue,
	"ReceiptHandleIsInvalid": queue.ErrReceipt,
	"MessageNotInflight":     queue.ErrReceipt,
	// Only for a receipt of a deleted message; everything else is checked before.
	"InvalidParameterValue":  queue.ErrReceipt,
	"InvalidMessageContents": queue.ErrLimit,
	"BatchRequestTooLong":    queue.ErrLimit,
}

// throttled lists the codes of requests and entries that SQS may accept later,
// although it blames the sender: too many of them, or too many of SQS's own to
// KMS, whose key encrypts the queue.
var throttled = map[string]bool{
	"RequestThrottled": true, "ThrottlingException": true, "KmsThrottled": true, "KMS.ThrottlingException": true,
}

// beyondTotal is in the message of the InvalidParameterValue error that SQS
// returns if a message would be held for more than MaxExtend in total.
const beyondTotal = "parameter VisibilityTimeout"

// plain returns a code without a prefix.
func plain(code string) string { return code[strings.LastIndexByte(code, '.')+1:] }

// translate returns the port's error for a code, or nil.
func translate(code, message string) error {
	code = plain(code)
	if code == "InvalidParameterValue" && strings.Contains(message, beyondTotal) {
		return queue.ErrLimit
	}
	return sentinels[code]
}

// wrap translates err and adds the operation and the queue. Unknown errors keep
// their chain, so that a cancelled context stays visible.
func (q *Queues) wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		if sentinel := translate(api.ErrorCode(), api.ErrorMessage()); sentinel != nil {
			if errors.Is(sentinel, queue.ErrUnknownQueue) {
				q.forget(name)
			}
			err = fmt.Errorf("%w (%s)", sentinel, api.ErrorCode())
		}
	}
	return fmt.Errorf("sqs: %s %s: %w", op, name, err)
}

// entryError is an entry of a batch that SQS did not accept.
type entryError struct {
	at      string // the entry's Id
	code    string
	message string
	ours    bool // SQS blames the sender
}

func (r *entryError) Error() string {
	return fmt.Sprintf("entry rejected (%s: %s)", r.code, r.message)
}

func (r *entryError) Unwrap() error { return translate(r.code, r.message) }

// final reports whether the entry would fail again.
func (r *entryError) final() bool {
	return r.ours && !throttled[plain(r.code)]
}

// resend passes entries to try until none fails with a transient error, at most
// maxAttempts times. It returns the remaining failures by index in entries. An
// error of a whole request ends it.
func resend[E any](ctx context.Context, longest time.Duration, entries []E, try func([]E) ([]*entryError, error)) (map[int]*entryError, error) {
	rejected := make(map[int]*entryError)
	places := make([]int, len(entries))
	for i := range places {
		places[i] = i
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = min(longest, 100*time.Millisecond), longest
	for attempt := 1; ; attempt++ {
		failed, err := try(entries)
		if err != nil {
			return rejected, err
		}
		var again []E
		var where []int
		for _, r := range failed {
			i, ok := indexOf(r.at, len(entries))
			switch {
			case !ok:
				return rejected, fmt.Errorf("answer about an entry %q that was not sent: %w", r.at, r)
			case r.final() || attempt == maxAttempts:
				rejected[places[i]] = r
			default:
				again, where = append(again, entries[i]), append(where, places[i])
			}
		}
		if len(again) == 0 {
			return rejected, nil
		}
		if err := clock.Sleep(ctx, pauses.NextBackOff()); err != nil {
			return rejected, err
		}
		entries, places = again, where
	}
}
