package dynamo

import (
	"errors"
	"fmt"
	"strings"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// codes maps DynamoDB's errors to the port's. Others keep their chain: a
// missing table, a denied access, an ended context.
var codes = map[string]error{
	"ProvisionedThroughputExceededException":   table.ErrThrottled,
	"ThrottlingException":                      table.ErrThrottled,
	"Throttling":                               table.ErrThrottled,
	"RequestLimitExceeded":                     table.ErrThrottled,
	"TransactionConflictException":             table.ErrConflict,
	"TransactionInProgressException":           table.ErrConflict,
	"ReplicatedWriteConflictException":         table.ErrConflict,
	"ItemCollectionSizeLimitExceededException": table.ErrLimit,
	"IdempotentParameterMismatchException":     table.ErrInvalid,
}

// reasons maps the cancellation reasons of a transaction to the port's errors,
// except ValidationError, which depends on its message.
var reasons = map[string]error{
	"ConditionalCheckFailed":          table.ErrConditionFailed,
	"DuplicateItem":                   table.ErrConditionFailed,
	"TransactionConflict":             table.ErrConflict,
	"ProvisionedThroughputExceeded":   table.ErrThrottled,
	"ThrottlingError":                 table.ErrThrottled,
	"ItemCollectionSizeLimitExceeded": table.ErrLimit,
}

const (
	noReason        = "None"
	validationError = "ValidationError"
)

// translate maps a DynamoDB error to the port's error.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if failed, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		old, err := decode(failed.Item)
		if err != nil {
			return err
		}
		return &table.ConditionError{Old: old}
	}
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return transactionError(cancelled)
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		if sentinel, known := codes[api.ErrorCode()]; known {
			return fmt.Errorf("%w: %s", sentinel, api.ErrorMessage())
		}
		if api.ErrorCode() == "ValidationException" {
			return fmt.Errorf("%w: %s", invalid(api.ErrorMessage()), api.ErrorMessage())
		}
	}
	return fmt.Errorf("dynamo: %w", err)
}

// limitWords are in DynamoDB's messages about a request that exceeds a limit.
// The drivers check most limits themselves; these are left for limits that
// depend on the stored item.
var limitWords = []string{"exceed", "maximum", "more than 38", "up to 38", "overflow", "underflow", "empty string"}

// invalid distinguishes, by DynamoDB's message, an exceeded limit from an
// invalid request.
func invalid(message string) error {
	message = strings.ToLower(message)
	for _, word := range limitWords {
		if strings.Contains(message, word) {
			return table.ErrLimit
		}
	}
	return table.ErrInvalid
}

func transactionError(cancelled *types.TransactionCanceledException) error {
	out := &table.TransactionError{Reasons: make([]table.Reason, len(cancelled.CancellationReasons))}
	for i, r := range cancelled.CancellationReasons {
		code := aws.ToString(r.Code)
		sentinel, known := reasons[code]
		switch {
		case known:
			out.Reasons[i].Err = sentinel
		case code == validationError:
			out.Reasons[i].Err = invalid(aws.ToString(r.Message))
		case code != "" && code != noReason:
			out.Reasons[i].Err = fmt.Errorf("dynamo: %s: %s", code, aws.ToString(r.Message))
		}
		old, err := decode(r.Item)
		if err != nil {
			return err
		}
		out.Reasons[i].Old = old
	}
	return out
}
