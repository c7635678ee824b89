package dynamo

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThrottlingIsReportedAfterSixAttempts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, call func(context.Context, *Table) error) {
		for _, code := range []string{"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"} {
			tbl, srv := serving(t, refusal(code, "slow down"))
			require.ErrorIs(t, call(t.Context(), tbl), table.ErrThrottled, code)
			assert.Len(t, srv.requests, maxAttempts, code)
		}
	})
}

func TestNetworkFailureIsRetried(t *testing.T) {
	t.Parallel()
	for name, call := range calls {
		if name == "Check" || name == "Get" {
			continue // they need more in a response
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tbl, srv := serving(t, broken, cut, ok(`{}`))
			require.NoError(t, call(t.Context(), tbl))
			assert.Len(t, srv.requests, 3)
		})
	}
}

func TestNonIdempotentUpdateIsRetriedOnlyIfNotApplied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do    []table.Action
		first answer
		want  int // number of requests
	}{
		"adding, lost":         {[]table.Action{table.Set("s", 1), table.Add("n", 1)}, broken, 1},
		"adding, cut short":    {[]table.Action{table.Add("n", 1)}, cut, 1},
		"appending, lost":      {[]table.Action{table.Append("l", 1)}, broken, 1},
		"adding, refused":      {[]table.Action{table.Add("n", 1)}, refusal("ThrottlingException", ""), 2},
		"adding, conflict":     {[]table.Action{table.Add("n", 1)}, refusal("TransactionConflictException", ""), 2},
		"uniting a set, lost":  {[]table.Action{table.AddToSet("s", 1), table.DropFromSet("d", 2)}, broken, 2},
		"setting, lost":        {[]table.Action{table.Set("n", 1), table.SetIfAbsent("m", 1), table.Remove("o")}, broken, 2},
		"appending none, lost": {[]table.Action{table.Append("l")}, broken, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tbl, srv := serving(t, c.first, ok(`{}`))
			err := update(c.do...)(t.Context(), tbl)
			assert.Len(t, srv.requests, c.want)
			assert.Equal(t, c.want == 1, err != nil)
		})
	}
}

func TestRetriedTransactionKeepsToken(t *testing.T) {
	t.Parallel()
	tbl, srv := serving(t, broken, broken, ok(`{}`))
	for range 2 {
		require.NoError(t, tbl.Transact(t.Context(), table.Put{Item: item("s")}))
	}
	require.Len(t, srv.requests, 4)
	token := func(i int) any { return srv.requests[i].body["ClientRequestToken"] }
	assert.NotEmpty(t, token(0))
	assert.Equal(t, token(0), token(1))
	assert.Equal(t, token(0), token(2))
	assert.NotEqual(t, token(0), token(3), "another transaction")
}

func cancelled(reasons string) answer {
	return answer{http.StatusBadRequest, `{"__type":"x#TransactionCanceledException","message":"cancelled","CancellationReasons":` + reasons + `}`}
}

func TestTransactionReasons(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"ConditionalCheckFailed": table.ErrConditionFailed, "DuplicateItem": table.ErrConditionFailed,
		"TransactionConflict": table.ErrConflict, "ItemCollectionSizeLimitExceeded": table.ErrLimit,
		"ProvisionedThroughputExceeded": table.ErrThrottled, "ThrottlingError": table.ErrThrottled,
		"ValidationError": table.ErrInvalid, "None": nil,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			tbl, _ := serving(t, cancelled(`[{"Code":"None"},{"Code":"`+code+`","Message":"An operand has an incorrect type",
				"Item":{"pk":{"S":"p"},"sk":{"S":"s"},"n":{"N":"1.50"}}}]`))
			err := tbl.Transact(t.Context(), table.Put{Item: item("a")}, table.Put{Item: item("b")})
			failed, ok := errors.AsType[*table.TransactionError](err)
			require.True(t, ok, err)
			require.Len(t, failed.Reasons, 2)
			require.NoError(t, failed.Reasons[0].Err)
			assert.Equal(t, want, failed.Reasons[1].Err)
			assert.InDelta(t, 1.5, failed.Reasons[1].Old["n"].Float(), 0)
		})
	}
	tbl, _ := serving(t, cancelled(`[{"Code":"ValidationError","Message":"Item size to update has exceeded the maximum allowed size"}]`))
	require.ErrorIs(t, tbl.Transact(t.Context(), table.Put{Item: item("a")}), table.ErrLimit)
	tbl, _ = serving(t, cancelled(`[{"Code":"AccessDenied","Message":"no"}]`))
	require.ErrorContains(t, tbl.Transact(t.Context(), table.Put{Item: item("a")}), "AccessDenied: no")
}

func TestTransactionIsRetriedOnlyIfThrottled(t *testing.T) {
	t.Parallel()
	for reasons, want := range map[string]int{
		`[{"Code":"None"},{"Code":"ThrottlingError"}]`:                            maxAttempts,
		`[{"Code":"ProvisionedThroughputExceeded"},{"Code":"ThrottlingError"}]`:   maxAttempts,
		`[{"Code":"ConditionalCheckFailed"},{"Code":"ThrottlingError"}]`:          1,
		`[{"Code":"TransactionConflict"},{"Code":"None"}]`:                        1,
		`[{"Code":"TransactionConflict"},{"Code":"ThrottlingError"}]`:             1,
		`[{"Code":"ConditionalCheckFailed"},{"Code":"ConditionalCheckFailed"}]`:   1,
		`[{"Code":"ValidationError"},{"Code":"ProvisionedThroughputExceeded"}]`:   1,
		`[{"Code":"ItemCollectionSizeLimitExceeded"},{"Code":"ThrottlingError"}]`: 1,
	} {
		tbl, srv := serving(t, cancelled(reasons))
		err := tbl.Transact(t.Context(), table.Put{Item: item("a")}, table.Put{Item: item("b")})
		require.ErrorAs(t, err, new(*table.TransactionError), reasons)
		assert.Len(t, srv.requests, want, reasons)
	}
}

func TestErrorsAreTranslated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code, message string
		want          error
	}{
		{"ConditionalCheckFailedException", "no", table.ErrConditionFailed},
		{"TransactionConflictException", "busy", table.ErrConflict},
		{"TransactionInProgressException", "busy", table.ErrConflict},
		{"ReplicatedWriteConflictException", "busy", table.ErrConflict},
		{"ItemCollectionSizeLimitExceededException", "full", table.ErrLimit},
		{"IdempotentParameterMismatchException", "another", table.ErrInvalid},
		{"ValidationException", "Invalid UpdateExpression: Incorrect operand type for operator", table.ErrInvalid},
		{"ValidationException", "Item size has exceeded the maximum allowed size", table.ErrLimit},
		{"ValidationException", "Attempting to store more than 38 significant digits in a Number", table.ErrLimit},
		{"ValidationException", "DynamoDB only supports precision up to 38 digits", table.ErrLimit},
		{"ValidationException", "Number overflow. Attempting to store a number with magnitude larger than supported range", table.ErrLimit},
		{"ValidationException", "An attribute value may not contain an empty string value. Key: due_pk", table.ErrLimit},
	} {
		tbl, _ := serving(t, refusal(c.code, c.message))
		err := calls["Put"](t.Context(), tbl)
		require.ErrorIs(t, err, c.want, c.code+": "+c.message)
		for _, other := range []error{table.ErrNotFound, table.ErrConditionFailed, table.ErrConflict, table.ErrThrottled, table.ErrLimit, table.ErrInvalid} {
			assert.Equal(t, errors.Is(c.want, other), errors.Is(err, other), "%s is %v", c.code, other)
		}
	}
}

func TestMissingTableIsNotNotFound(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, call func(context.Context, *Table) error) {
		tbl, srv := serving(t, refusal("ResourceNotFoundException", "Cannot do operations on a non-existent table"))
		err := call(t.Context(), tbl)
		require.ErrorContains(t, err, "non-existent table")
		require.NotErrorIs(t, err, table.ErrNotFound)
		assert.Len(t, srv.requests, 1)
	})
}

func TestDeadlineEndsCall(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, call func(context.Context, *Table) error) {
		gone := make(chan struct{})
		tbl := on(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		defer close(gone)
		err := call(ctx, tbl)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, table.ErrThrottled)
	})
}

func TestDeadlineEndsBackoff(t *testing.T) {
	t.Parallel()
	tbl, _ := serving(t, ok(`{"UnprocessedItems":{"things":[{"DeleteRequest":{"Key":{"pk":{"S":"p"},"sk":{"S":"s"}}}}]}}`))
	tbl.pause = backoff{base: time.Hour, most: time.Hour}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, tbl.BatchWrite(ctx, []table.Write{table.Delete{Key: key}}), context.DeadlineExceeded)
}

func TestEmptyTableNameIsNotConfigured(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, call func(context.Context, *Table) error) {
		tbl := New(Config{AWS: func(context.Context) (aws.Config, error) { panic("it is not asked") }})
		require.ErrorIs(t, call(t.Context(), tbl), table.ErrNotConfigured)
	})
}

func TestConfigurationErrorIsNotCached(t *testing.T) {
	t.Parallel()
	tbl, _ := serving(t, ok(`{}`))
	works := tbl.cfg.AWS
	tbl.cfg.AWS = func(context.Context) (aws.Config, error) { return aws.Config{}, assert.AnError }
	require.ErrorIs(t, calls["Put"](t.Context(), tbl), assert.AnError)
	tbl.cfg.AWS = works
	require.NoError(t, calls["Put"](t.Context(), tbl))
}

func TestCheckReportsTableStatus(t *testing.T) {
	t.Parallel()
	for status, fine := range map[string]bool{
		"ACTIVE": true, "UPDATING": true, "CREATING": false, "DELETING": false, "ARCHIVED": false,
	} {
		tbl, _ := serving(t, ok(`{"Table":{"TableStatus":"`+status+`"}}`))
		err := tbl.Check(t.Context())
		assert.Equal(t, fine, err == nil, "%s: %v", status, err)
	}
}
