// Package awsretry is how drivers of AWS services repeat requests.
package awsretry

import (
	"errors"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// New makes a retryer that makes so many attempts in all, with the SDK's backoff
// of at most so long between two. It is for requests that may be made twice:
// besides what the SDK repeats it repeats what [CutShort] tells.
func New(attempts int, most time.Duration) aws.RetryerV2 {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = attempts, most
		o.Retryables = append(o.Retryables, CutShort)
	})
}

// CutShort tells an answer that ended before its time, which the SDK does not
// count among the failures of a connection. What was asked may have been done.
var CutShort retry.IsErrorRetryableFunc = func(err error) aws.Ternary {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}
