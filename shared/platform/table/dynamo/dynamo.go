// Package dynamo is the table driver for Amazon DynamoDB.
//
// # Retries
//
// The SDK's retryer is the only layer that retries. It retries throttled
// requests, lock conflicts with transactions and network failures a few times
// with jitter. A write whose response was lost may have been applied before it
// is sent again. Transactions carry a token, so DynamoDB applies them once. A
// conditional Put, Delete or Update may then fail because of its own first
// attempt: a caller who must know writes its own nonce and compares it with Old
// of the [table.ConditionError]. An Update that is not idempotent (adding to a
// number, appending to a list) is retried only if it was certainly not applied;
// otherwise the caller decides.
package dynamo

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// attemptTimeout bounds one attempt of a request, so that a silent connection
// does not use up the caller's whole deadline.
const attemptTimeout = 10 * time.Second

// idleConnections is the number of idle connections that stay open. With the
// SDK's ten, a busy process would open new ones constantly.
const idleConnections = 64

// Config selects the table and how to reach it.
type Config struct {
	Table string // name or ARN; if empty, every call returns table.ErrNotConfigured

	// AWS loads the SDK's configuration on first use; nil means the environment's.
	AWS func(ctx context.Context) (aws.Config, error)
}

// Table is the DynamoDB driver. Create it with New.
type Table struct {
	cfg Config

	mu     sync.Mutex // guards the lazy client
	client *dynamodb.Client
	pause  backoff
}

var _ table.Table = (*Table)(nil)

// New returns the driver of a table created with [Schema]. It makes no request:
// the client is built on first use.
func New(cfg Config) *Table {
	if cfg.AWS == nil {
		cfg.AWS = awsenv.Load
	}
	return &Table{cfg: cfg, pause: backoff{base: baseBackoff, most: maxBackoff}}
}

// open returns the client. An error is not cached: the next call tries again.
func (t *Table) open(ctx context.Context) (*dynamodb.Client, error) {
	if t.cfg.Table == "" {
		return nil, table.ErrNotConfigured
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client == nil {
		// The client outlives the first caller, so its cancellation must not apply.
		cfg, err := t.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, fmt.Errorf("dynamo: %w", err)
		}
		t.client = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
			o.Retryer = retryer(t.pause, true)
			if cfg.HTTPClient == nil {
				cfg.HTTPClient = awshttp.NewBuildableClient()
			}
			if plain, ok := cfg.HTTPClient.(*awshttp.BuildableClient); ok {
				o.HTTPClient = plain.WithTimeout(attemptTimeout).
					WithTransportOptions(func(tr *http.Transport) { tr.MaxIdleConnsPerHost = idleConnections })
			}
		})
	}
	return t.client, nil
}

func (t *Table) name() *string { return &t.cfg.Table }

// Check returns an error if the table is not active.
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
	case types.TableStatusActive, types.TableStatusUpdating: // a table stays available while it is updated
		return nil
	default:
		return fmt.Errorf("dynamo: table %s is %s", t.cfg.Table, status)
	}
}
