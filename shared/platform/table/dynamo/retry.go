package dynamo

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"millrace/shared/platform/awsretry"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Number of attempts and longest pauses. Six attempts wait at most 1.5 s in
// total; if throttling lasts longer, the caller is told to try again later.
const (
	maxAttempts = 6
	baseBackoff = 50 * time.Millisecond
	maxBackoff  = 2 * time.Second
)

// backoff is exponential with full jitter.
type backoff struct{ base, most time.Duration }

// delay returns the pause after the given number of failed attempts, 1 or more.
func (b backoff) delay(failed int) time.Duration {
	ceiling := b.most
	if shift := max(0, failed-1); shift < 20 {
		ceiling = min(b.most, b.base<<shift)
	}
	return rand.N(ceiling + 1)
}

// BackoffDelay implements the SDK's interface, which counts retries from 0.
func (b backoff) BackoffDelay(retries int, _ error) (time.Duration, error) {
	return b.delay(retries + 1), nil
}

// sleep pauses, or returns the context's error.
func (b backoff) sleep(ctx context.Context, failed int) error {
	return clock.Sleep(ctx, b.delay(failed))
}

// refusals are the error codes of requests that DynamoDB certainly did not
// apply and may accept later.
var refusals = map[string]struct{}{
	"ProvisionedThroughputExceededException": {},
	"ThrottlingException":                    {},
	"Throttling":                             {},
	"RequestLimitExceeded":                   {},
	"TransactionConflictException":           {}, // a single write that conflicts with a transaction
	"ReplicatedWriteConflictException":       {},
}

// retryer returns the only layer of retries. A request that is not repeatable
// is retried only if DynamoDB certainly did not apply it.
func retryer(pause backoff, repeatable bool) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.MaxBackoff = pause.most
		o.Backoff = pause
		// The number of attempts bounds retries. The SDK's retry budget is shared by
		// all requests of a client and would let one hot key starve the others.
		o.RateLimiter = ratelimit.None
		conditions := []retry.IsErrorRetryable{
			retry.RetryableErrorCode{Codes: refusals},
			retry.IsErrorRetryableFunc(throttledTransaction),
		}
		if repeatable {
			o.Retryables = append(append(o.Retryables, conditions...), awsretry.Truncated)
		} else {
			o.Retryables = append([]retry.IsErrorRetryable{retry.NoRetryCanceledError{}}, conditions...)
		}
	})
}

// throttledTransaction reports a transaction that failed only because of
// throughput. A conflict with another transaction is left to the caller, who
// may want to read again first.
func throttledTransaction(err error) aws.Ternary {
	cancelled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return aws.UnknownTernary
	}
	throttled := false
	for _, r := range cancelled.CancellationReasons {
		switch code := aws.ToString(r.Code); {
		case code == "" || code == noReason:
		case errors.Is(reasons[code], table.ErrThrottled):
			throttled = true
		default:
			return aws.FalseTernary
		}
	}
	return aws.BoolTernary(throttled)
}
