package dynamo

import (
	"context"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Get returns the item, or table.ErrNotFound.
func (t *Table) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if err := table.CheckKey(key); err != nil {
		return nil, err
	}
	o, err := table.NewReadOptions(opts)
	if err != nil {
		return nil, err
	}
	client, err := t.open(ctx)
	if err != nil {
		return nil, err
	}
	var e expression
	only := e.projection(o.Only)
	out, err := client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: t.name(), Key: encodeKey(key), ConsistentRead: &o.Consistent, ReturnConsumedCapacity: report,
		ProjectionExpression: only, ExpressionAttributeNames: e.names,
	})
	if err != nil {
		return nil, translate(err)
	}
	meter(ctx, table.OpGet, one(out.ConsumedCapacity)...)
	if len(out.Item) == 0 {
		return nil, table.ErrNotFound
	}
	return decode(out.Item)
}

// Query returns one page of the table or of an index.
func (t *Table) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if err := table.CheckQuery(q); err != nil {
		return table.Page{}, err
	}
	start, err := startKey(q)
	if err != nil {
		return table.Page{}, err
	}
	if q.Range.Empty() {
		return table.Page{}, nil
	}
	client, err := t.open(ctx)
	if err != nil {
		return table.Page{}, err
	}
	var e expression
	in := &dynamodb.QueryInput{
		TableName: t.name(), ExclusiveStartKey: start, ReturnConsumedCapacity: report,
		KeyConditionExpression: aws.String(e.key(q)),
		ProjectionExpression:   e.projection(q.Only),
		ConsistentRead:         &q.Consistent, ScanIndexForward: aws.Bool(!q.Reverse),
	}
	if in.FilterExpression, err = fit(e.filter(q)); err != nil {
		return table.Page{}, err
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	if q.Index != "" {
		in.IndexName = aws.String(IndexName(q.Index))
	}
	if q.Limit > 0 {
		in.Limit = aws.Int32(int32(min(q.Limit, table.MaxPageBytes)))
	}
	out, err := client.Query(ctx, in)
	if err != nil {
		return table.Page{}, translate(err)
	}
	meter(ctx, table.OpQuery, one(out.ConsumedCapacity)...)
	return page(q, out)
}

func page(q table.Query, out *dynamodb.QueryOutput) (table.Page, error) {
	var p table.Page
	for _, attributes := range out.Items {
		item, err := decode(attributes)
		if err != nil {
			return table.Page{}, err
		}
		p.Items = append(p.Items, item)
	}
	last, err := decode(out.LastEvaluatedKey)
	if err != nil || last == nil {
		return p, err
	}
	at := table.Position{Key: last.Key()}
	if q.Index != "" {
		at.Entry, _ = last.Entry(q.Index)
	}
	p.Next = table.EncodeCursor(q, at)
	return p, nil
}

// startKey converts a query's cursor to DynamoDB's form, or nil if there is
// none.
func startKey(q table.Query) (map[string]types.AttributeValue, error) {
	if q.Start == "" {
		return nil, nil
	}
	at, err := table.DecodeCursor(q)
	if err != nil {
		return nil, err
	}
	if q.Index == "" {
		return encodeKey(at.Key), nil
	}
	return encodeItem(table.EntryItem(q.Index, at.Entry, at.Key)), nil
}
