package dynamo

import (
	"strconv"
	"testing"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func anyValue(depth int) *rapid.Generator[table.Value] {
	return rapid.Custom(func(t *rapid.T) table.Value {
		switch rapid.IntRange(0, 6+2*min(depth, 1)).Draw(t, "kind") {
		case 0:
			return table.V(rapid.String().Draw(t, "s"))
		case 1:
			n, err := table.Decimal(rapid.StringMatching(`-?[0-9]{1,30}(\.[0-9]{1,8})?`).Draw(t, "n"))
			require.NoError(t, err)
			return n
		case 2:
			return table.V(rapid.SliceOf(rapid.Byte()).Draw(t, "b"))
		case 3:
			return table.V(rapid.Bool().Draw(t, "bool"))
		case 4:
			return table.V(nil)
		case 5:
			return table.SetOf(rapid.SliceOfN(rapid.Int(), 1, 5).Draw(t, "ns")...)
		case 6:
			return table.SetOf(rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "ss")...)
		case 7:
			return table.List(rapid.SliceOfN(anyValue(depth-1), 0, 4).Draw(t, "l")...)
		default:
			return table.Map(rapid.MapOfN(rapid.String(), anyValue(depth-1), 0, 4).Draw(t, "m"))
		}
	})
}

func TestValuesRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(3).Draw(t, "value")
		got, err := decodeValue(encode(v))
		require.NoError(t, err)
		require.True(t, v.Equal(got), "%v became %v", v, got)
	})
}

func TestUnknownValuesAreRejected(t *testing.T) {
	t.Parallel()
	for _, bad := range []types.AttributeValue{
		&types.AttributeValueMemberBS{Value: [][]byte{{1}}},
		&types.AttributeValueMemberN{Value: "NaN"},
		&types.AttributeValueMemberNS{Value: []string{"x"}},
		nil,
	} {
		for _, a := range []types.AttributeValue{
			bad, &types.AttributeValueMemberL{Value: []types.AttributeValue{bad}},
			&types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"m": bad}},
		} {
			_, err := decode(map[string]types.AttributeValue{"a": a})
			require.ErrorIs(t, err, table.ErrInvalid)
		}
	}
}

func TestSchemaMatchesPort(t *testing.T) {
	t.Parallel()
	in := Schema("things")
	assert.Equal(t, "things", *in.TableName)
	assert.Equal(t, types.BillingModePayPerRequest, in.BillingMode)
	require.Len(t, in.GlobalSecondaryIndexes, len(table.Indexes))
	assert.Len(t, in.AttributeDefinitions, 2+2*len(table.Indexes), "key attributes only, or AWS refuses it")
	for i, x := range table.Indexes {
		index := in.GlobalSecondaryIndexes[i]
		assert.Equal(t, IndexName(x), *index.IndexName)
		assert.GreaterOrEqual(t, len(*index.IndexName), 3)
		assert.Equal(t, x, indexNamed(*index.IndexName))
		assert.Equal(t, types.ProjectionTypeKeysOnly, index.Projection.ProjectionType)
		assert.Equal(t, string(x)+"_pk", *index.KeySchema[0].AttributeName)
		assert.Equal(t, string(x)+"_sk", *index.KeySchema[1].AttributeName)
	}
	assert.Equal(t, table.TTLAttribute, *TimeToLive("things").TimeToLiveSpecification.AttributeName)
}

func TestTransactionRepeatedByTokenCountsAsRead(t *testing.T) {
	t.Parallel()
	meter := &table.Meter{}
	ctx := table.WithMeter(t.Context(), meter)
	index := strconv.Quote(IndexName(table.Due))
	tbl, _ := serving(t, ok(`{"ConsumedCapacity":[{"TableName":"things","Table":{"CapacityUnits":2,"ReadCapacityUnits":2}}]}`),
		ok(`{"ConsumedCapacity":[{"TableName":"things","Table":{"CapacityUnits":4,"WriteCapacityUnits":4},
			"GlobalSecondaryIndexes":{`+index+`:{"CapacityUnits":1,"WriteCapacityUnits":1}}}]}`))
	for range 2 {
		require.NoError(t, calls["Transact"](ctx, tbl))
	}
	assert.Equal(t, table.Usage{
		Table:    table.Units{Read: 2, Write: 4},
		Indexes:  map[table.Index]table.Units{table.Due: {Write: 1}},
		Requests: map[table.Operation]int{table.OpTransact: 2},
	}, meter.Usage())
	assert.Equal(t, table.Units{}, units(table.OpPut, &types.Capacity{}))
	assert.Equal(t, table.Units{Read: 0.5}, units(table.OpGet, &types.Capacity{CapacityUnits: aws.Float64(0.5)}))
}
