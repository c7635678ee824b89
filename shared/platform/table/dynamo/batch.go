package dynamo

import (
	"context"
	"fmt"
	"slices"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// BatchGet returns the existing items, in the order of keys.
func (t *Table) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	if err := table.CheckKeys(keys); err != nil {
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
	found := make(map[table.Key]table.Item, len(keys))
	for chunk := range slices.Chunk(keys, table.MaxBatchGet) {
		request := types.KeysAndAttributes{
			ConsistentRead: &o.Consistent, ProjectionExpression: only, ExpressionAttributeNames: e.names,
		}
		for _, key := range chunk {
			request.Keys = append(request.Keys, encodeKey(key))
		}
		err := t.drain(ctx, func() (left int, err error) {
			out, err := client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
				RequestItems:           map[string]types.KeysAndAttributes{t.cfg.Table: request},
				ReturnConsumedCapacity: report,
			})
			if err != nil {
				return 0, translate(err)
			}
			meter(ctx, table.OpBatchGet, out.ConsumedCapacity...)
			for _, answers := range out.Responses {
				for _, attributes := range answers {
					item, err := decode(attributes)
					if err != nil {
						return 0, err
					}
					found[item.Key()] = item
				}
			}
			request.Keys = nil
			for _, rest := range out.UnprocessedKeys {
				request.Keys = append(request.Keys, rest.Keys...)
			}
			return len(request.Keys), nil
		})
		if err != nil {
			return nil, err
		}
	}
	var items []table.Item
	for _, key := range keys {
		if item, ok := found[key]; ok {
			items = append(items, item)
		}
	}
	return items, nil
}

// BatchWrite applies Puts and Deletes.
func (t *Table) BatchWrite(ctx context.Context, writes []table.Write) error {
	if err := table.CheckBatch(writes); err != nil {
		return err
	}
	requests := make([]types.WriteRequest, len(writes))
	for i, w := range writes {
		switch w := w.(type) {
		case table.Put:
			item, _, err := marshal(w)
			if err != nil {
				return fmt.Errorf("write %d: %w", i, err)
			}
			requests[i].PutRequest = &types.PutRequest{Item: item}
		case table.Delete:
			requests[i].DeleteRequest = &types.DeleteRequest{Key: encodeKey(w.Key)}
		}
	}
	client, err := t.open(ctx)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(requests, table.MaxBatchWrite) {
		err := t.drain(ctx, func() (left int, err error) {
			out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
				RequestItems:           map[string][]types.WriteRequest{t.cfg.Table: chunk},
				ReturnConsumedCapacity: report,
			})
			if err != nil {
				return 0, translate(err)
			}
			meter(ctx, table.OpBatchWrite, out.ConsumedCapacity...)
			chunk = nil
			for _, rest := range out.UnprocessedItems {
				chunk = append(chunk, rest...)
			}
			return len(chunk), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// drain repeats a batch until no item is left unprocessed. The SDK does not
// treat unprocessed items as an error, so these pauses do not add to its own.
// Only attempts without progress count; after the last one drain returns
// ErrThrottled.
func (t *Table) drain(ctx context.Context, attempt func() (left int, err error)) error {
	before, failed := 0, 0
	for {
		left, err := attempt()
		if err != nil || left == 0 {
			return err
		}
		if failed++; before != 0 && left < before {
			failed = 1
		}
		if before = left; failed == maxAttempts {
			return fmt.Errorf("%w: %d of a batch unprocessed", table.ErrThrottled, left)
		}
		if err := t.pause.sleep(ctx, failed); err != nil {
			return fmt.Errorf("dynamo: %w", err)
		}
	}
}
