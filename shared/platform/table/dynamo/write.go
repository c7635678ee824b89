package dynamo

import (
	"context"
	"errors"
	"slices"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// showOld requests the item that failed a condition.
const showOld = types.ReturnValuesOnConditionCheckFailureAllOld

// marshal checks a Put and converts its item. size is in bytes.
func marshal(put table.Put) (attributes map[string]types.AttributeValue, size int, err error) {
	if err := table.CheckWrite(put); err != nil {
		return nil, 0, err
	}
	item, err := table.Marshal(put.Item)
	if err != nil {
		return nil, 0, err
	}
	if size, err = table.CheckItem(item); err != nil {
		return nil, 0, err
	}
	return encodeItem(item), size, nil
}

// checkUpdate checks an Update and each value it sets, for which DynamoDB's own
// messages are less clear.
func checkUpdate(update table.Update) error {
	if err := table.CheckWrite(update); err != nil {
		return err
	}
	item := table.Item{"pk": table.V(update.Key.PK), "sk": table.V(update.Key.SK)}
	for _, a := range update.Do {
		if set, ok := a.(table.ActSet); ok && !set.IfAbsent {
			item[set.Attr] = set.Value
		}
	}
	_, err := table.CheckItem(item)
	return err
}

// conditionFailed counts a single write whose condition failed, and translates its
// error.
func conditionFailed(ctx context.Context, op table.Operation, err error) error {
	err = translate(err)
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		meterRefused(ctx, op, failed)
	}
	return err
}

// Put stores an item.
func (t *Table) Put(ctx context.Context, put table.Put) error {
	item, _, err := marshal(put)
	if err != nil {
		return err
	}
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	var e expression
	in := &dynamodb.PutItemInput{
		TableName: t.name(), Item: item,
		ReturnConsumedCapacity: report, ReturnValuesOnConditionCheckFailure: showOld,
	}
	if in.ConditionExpression, err = fit(e.condition(put.If)); err != nil {
		return err
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	out, err := client.PutItem(ctx, in)
	if err != nil {
		return conditionFailed(ctx, table.OpPut, err)
	}
	meter(ctx, table.OpPut, one(out.ConsumedCapacity)...)
	return nil
}

// Update changes an item and returns all its new attributes.
func (t *Table) Update(ctx context.Context, update table.Update) (table.Item, error) {
	if err := checkUpdate(update); err != nil {
		return nil, err
	}
	client, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	var e expression
	in := &dynamodb.UpdateItemInput{
		TableName: t.name(), Key: encodeKey(update.Key), ReturnValues: types.ReturnValueAllNew,
		ReturnConsumedCapacity: report, ReturnValuesOnConditionCheckFailure: showOld,
	}
	if in.UpdateExpression, err = fit(e.update(update.Do)); err != nil {
		return nil, err
	}
	if in.ConditionExpression, err = fit(e.condition(update.If)); err != nil {
		return nil, err
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	out, err := client.UpdateItem(ctx, in, func(o *dynamodb.Options) {
		if !repeatable(update.Do) {
			o.Retryer = retryer(t.pause, false)
		}
	})
	if err != nil {
		return nil, conditionFailed(ctx, table.OpUpdate, err)
	}
	meter(ctx, table.OpUpdate, one(out.ConsumedCapacity)...)
	return decode(out.Attributes)
}

// repeatable reports whether actions are idempotent.
func repeatable(actions []table.Action) bool {
	return !slices.ContainsFunc(actions, func(a table.Action) bool {
		switch a := a.(type) {
		case table.ActAppend:
			return a.Value.Len() > 0
		case table.ActAdd:
			return a.Value.Kind() == table.Number
		}
		return false
	})
}

// Delete removes an item.
func (t *Table) Delete(ctx context.Context, del table.Delete) error {
	if err := table.CheckWrite(del); err != nil {
		return err
	}
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	var e expression
	in := &dynamodb.DeleteItemInput{
		TableName: t.name(), Key: encodeKey(del.Key),
		ReturnConsumedCapacity: report, ReturnValuesOnConditionCheckFailure: showOld,
	}
	if in.ConditionExpression, err = fit(e.condition(del.If)); err != nil {
		return err
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	out, err := client.DeleteItem(ctx, in)
	if err != nil {
		return conditionFailed(ctx, table.OpDelete, err)
	}
	meter(ctx, table.OpDelete, one(out.ConsumedCapacity)...)
	return nil
}
