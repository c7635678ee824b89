package dynamo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Transact applies all of the writes or none. It carries a token, so that a
// transaction whose response was lost is not applied twice.
func (t *Table) Transact(ctx context.Context, writes ...table.Write) error {
	if err := table.CheckTransaction(writes); err != nil {
		return err
	}
	items := make([]types.TransactWriteItem, len(writes))
	total := 0
	for i, w := range writes {
		size, err := t.member(&items[i], w)
		if err != nil {
			return fmt.Errorf("write %d: %w", i, err)
		}
		total += size
	}
	if total > table.MaxTransactBytes {
		return fmt.Errorf("%w: transaction of %d bytes, at most %d", table.ErrLimit, total, table.MaxTransactBytes)
	}
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	out, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: items, ClientRequestToken: aws.String(rand.Text()), ReturnConsumedCapacity: report,
	})
	if err != nil {
		err = translate(err)
		if cancelled, ok := errors.AsType[*table.TransactionError](err); ok {
			meterCancelled(ctx, cancelled)
		}
		return err
	}
	meter(ctx, table.OpTransact, out.ConsumedCapacity...)
	return nil
}

// member converts a write to DynamoDB's form and returns the size of the item
// it puts.
func (t *Table) member(into *types.TransactWriteItem, w table.Write) (size int, err error) {
	var e expression
	switch w := w.(type) {
	case table.Put:
		put := &types.Put{TableName: t.name(), ReturnValuesOnConditionCheckFailure: showOld}
		if put.Item, size, err = marshal(w); err != nil {
			return 0, err
		}
		put.ConditionExpression, err = fit(e.condition(w.If))
		put.ExpressionAttributeNames, put.ExpressionAttributeValues = e.names, e.values
		into.Put = put
	case table.Update:
		if err := checkUpdate(w); err != nil {
			return 0, err
		}
		do := w.Do
		if len(do) == 0 {
			// DynamoDB requires an action here. Removing an attribute that no item has
			// still creates a missing item.
			do = []table.Action{table.Remove(nobody)}
		}
		update := &types.Update{TableName: t.name(), Key: encodeKey(w.Key), ReturnValuesOnConditionCheckFailure: showOld}
		if update.UpdateExpression, err = fit(e.update(do)); err != nil {
			return 0, err
		}
		update.ConditionExpression, err = fit(e.condition(w.If))
		update.ExpressionAttributeNames, update.ExpressionAttributeValues = e.names, e.values
		into.Update = update
	case table.Delete:
		del := &types.Delete{TableName: t.name(), Key: encodeKey(w.Key), ReturnValuesOnConditionCheckFailure: showOld}
		del.ConditionExpression, err = fit(e.condition(w.If))
		del.ExpressionAttributeNames, del.ExpressionAttributeValues = e.names, e.values
		into.Delete = del
	case table.Check:
		check := &types.ConditionCheck{TableName: t.name(), Key: encodeKey(w.Key), ReturnValuesOnConditionCheckFailure: showOld}
		check.ConditionExpression, err = fit(e.check(w.If))
		check.ExpressionAttributeNames, check.ExpressionAttributeValues = e.names, e.values
		into.ConditionCheck = check
	}
	return size, err
}
