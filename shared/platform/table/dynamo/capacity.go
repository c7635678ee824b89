package dynamo

import (
	"context"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// report makes DynamoDB return the consumed units, with those of indexes apart.
const report = types.ReturnConsumedCapacityIndexes

// meter counts a request with the units that DynamoDB reports.
func meter(ctx context.Context, op table.Operation, consumed ...types.ConsumedCapacity) {
	m := table.MeterFrom(ctx)
	if m == nil {
		return
	}
	total := table.Units{}
	for i := range consumed {
		c := &consumed[i]
		if c.Table != nil {
			total = total.Plus(units(op, c.Table))
		}
		for name, c := range c.GlobalSecondaryIndexes {
			m.AddIndex(indexNamed(name), units(op, &c))
		}
	}
	m.Add(op, total)
}

// units returns the units of a request. DynamoDB distinguishes reads from
// writes only for transactions: one repeated by its token counts as reads.
func units(op table.Operation, c *types.Capacity) table.Units {
	if c.ReadCapacityUnits != nil || c.WriteCapacityUnits != nil {
		return table.Units{Read: aws.ToFloat64(c.ReadCapacityUnits), Write: aws.ToFloat64(c.WriteCapacityUnits)}
	}
	switch op {
	case table.OpGet, table.OpBatchGet, table.OpQuery:
		return table.Units{Read: aws.ToFloat64(c.CapacityUnits)}
	}
	return table.Units{Write: aws.ToFloat64(c.CapacityUnits)}
}

// one returns the units of a request of one item as a list.
func one(c *types.ConsumedCapacity) []types.ConsumedCapacity {
	if c == nil {
		return nil
	}
	return []types.ConsumedCapacity{*c}
}

// meterRefused counts a write whose condition failed. DynamoDB charges the size
// of the stored item, but its error does not report it.
func meterRefused(ctx context.Context, op table.Operation, failed *table.ConditionError) {
	table.MeterFrom(ctx).Add(op, table.Units{Write: table.WriteUnits(failed.Old.Size())})
}

// meterCancelled counts a cancelled transaction, which DynamoDB does not report
// either. The sizes of items that did not fail a condition are unknown and
// count as the minimum.
func meterCancelled(ctx context.Context, cancelled *table.TransactionError) {
	units := 0.0
	for _, r := range cancelled.Reasons {
		units += table.TransactionFactor * table.WriteUnits(r.Old.Size())
	}
	table.MeterFrom(ctx).Add(table.OpTransact, table.Units{Write: units})
}
