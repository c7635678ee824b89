// Package dynamo is the table port's driver for Amazon DynamoDB.
//
// # Retries
//
// The SDK's retryer is the only layer that retries: what was throttled, met a
// transaction's lock, or failed on the way, a few times with jitter. A write
// whose answer was lost may have been applied before it is sent again.
// Transactions carry a token, so DynamoDB applies them once. A Put, Delete or
// Update with a condition may then fail the condition by its own first attempt:
// a caller who must know writes a nonce of its own and recognises it in the
// [table.ConditionError]'s Old. An Update that would do more the second time
// (adding to a number, appending to a list) is repeated only if it was refused
// for certain; otherwise its error is the caller's to judge.
package dynamo

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// attemptTimeout bounds one attempt of a request, so that a connection gone
// silent does not cost a caller all the time it has.
const attemptTimeout = 10 * time.Second

// idleConnections are kept open; with the SDK's ten a busy process would make
// new ones all the time.
const idleConnections = 64

// Config says which table to speak to and how.
type Config struct {
	Table string // name or ARN; empty: every call answers table.ErrNotConfigured

	// AWS returns the SDK's configuration, asked at the first use; nil takes
	// the environment's.
	AWS func(ctx context.Context) (aws.Config, error)
}

// Table is the driver. Make it with New.
type Table struct {
	cfg Config

	mu     sync.Mutex // guards the lazy client
	client *dynamodb.Client
	pause  backoff
}

var _ table.Table = (*Table)(nil)

// New returns the driver of a table made by [Schema]. It contacts nothing: the
// client is built at the first use.
func New(cfg Config) *Table {
	if cfg.AWS == nil {
		cfg.AWS = func(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }
	}
	return &Table{cfg: cfg, pause: backoff{base: baseBackoff, most: maxBackoff}}
}

// open returns the client. A failure is not kept: the next call tries again.
func (t *Table) open(ctx context.Context) (*dynamodb.Client, error) {
	if t.cfg.Table == "" {
		return nil, table.ErrNotConfigured
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		// The first caller's cancellation must not decide about everybody's client.
		cfg, err := t.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("dynamo: %w", err)
		}
		t.client = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
			o.Retryer = retryer(t.pause, true)
			if cfg.HTTPClient == nil {
				o.HTTPClient = awshttp.NewBuildableClient().WithTimeout(attemptTimeout).
					WithTransportOptions(func(tr *http.Transport) { tr.MaxIdleConnsPerHost = idleConnections })
			}
		})
	}
	return t.client, nil
}

func (t *Table) name() *string { return &t.cfg.Table }

// Check reads the table's state.
func (t *Table) Check(ctx context.Context) error {
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	out, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: t.name()})
	if err != nil {
		return translate(err)
	}
	switch status := out.Table.TableStatus; status {
	case types.TableStatusActive, types.TableStatusUpdating: // it serves while it is updated
		return nil
	default:
		return fmt.Errorf("dynamo: table %s is %s", t.cfg.Table, status)
	}
}
