// Package awsretry configures how the drivers of AWS services retry requests.
package awsretry

import (
	"errors"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// New returns a retryer that makes at most attempts attempts, with the SDK's
// exponential backoff capped at most. Use it only for idempotent requests:
// besides the failures that the SDK retries, it retries those that [Truncated]
// reports.
func New(attempts int, most time.Duration) aws.RetryerV2 {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = attempts, most
		o.Retryables = append(o.Retryables, Truncated)
	})
}

// Truncated reports whether a response ended before its announced length, which
// the SDK does not count as a connection failure. The request may have taken
// effect.
var Truncated retry.IsErrorRetryableFunc = func(err error) aws.Ternary {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}
