package emulators

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"millrace/shared/platform/table"
	"millrace/shared/platform/table/dynamo"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// tablePatience is how long AWS may take to create a table with its indexes.
const tablePatience = 3 * time.Minute

// poll is the interval for checking a table that is being created.
const poll = 20 * time.Millisecond

// CreateTable creates the service's table from its definition and waits until
// it is active.
func CreateTable(ctx context.Context, client *dynamodb.Client, name string) error {
	return MakeTable(ctx, client, dynamo.Schema(name), dynamo.TimeToLive(name).TimeToLiveSpecification)
}

// MakeTable creates a table with a time to live and waits until it is active.
func MakeTable(ctx context.Context, client *dynamodb.Client, in *dynamodb.CreateTableInput, ttl *types.TimeToLiveSpecification) error {
	if _, err := client.CreateTable(ctx, in); err != nil {
		return fmt.Errorf("emulators: make table %s: %w", aws.ToString(in.TableName), err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = poll, time.Second
	})
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, tablePatience); err != nil {
		return fmt.Errorf("emulators: table %s does not come up: %w", *in.TableName, err)
	}
	if _, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: in.TableName, TimeToLiveSpecification: ttl}); err != nil {
		return fmt.Errorf("emulators: time to live of table %s: %w", *in.TableName, err)
	}
	return nil
}

// Table returns a table on [DynamoDB] that belongs to the test and is deleted
// at its end.
func Table(t testing.TB) table.Table {
	t.Helper()
	endpoint := DynamoDB(t)
	client := dynamodb.NewFromConfig(endpoint.Config())
	name := "test-" + rand.Text()
	if err := CreateTable(t.Context(), client, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("emulators: drop table %s: %v", name, err)
		}
	})
	return dynamo.New(dynamo.Config{
		Table: name,
		AWS:   func(context.Context) (aws.Config, error) { return endpoint.Config(), nil },
	})
}
