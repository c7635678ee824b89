package table_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// TestMeteredCountsEveryOperation checks that each counts once.
func TestMeteredCountsEveryOperation(t *testing.T) {
	t.Parallel()
	type item struct {
		table.Key
	}
	ctx, key := t.Context(), table.Key{PK: "p", SK: "s"}
	meter := &table.Meter{}
	m := table.Metered(memory.Table(t, clock.System{}), meter)
	require.NoError(t, m.Put(ctx, table.Put{Item: item{key}}))
	_, err := m.Get(ctx, key)
	require.NoError(t, err)
	_, err = m.BatchGet(ctx, []table.Key{key})
	require.NoError(t, err)
	_, err = m.Update(ctx, table.Update{Key: key, Do: []table.Action{table.Set("a", 1)}})
	require.NoError(t, err)
	_, err = m.Query(ctx, table.Query{PK: "p"})
	require.NoError(t, err)
	require.NoError(t, m.Transact(ctx, table.Put{Item: item{key}}))
	require.NoError(t, m.BatchWrite(ctx, []table.Write{table.Put{Item: item{key}}}))
	require.NoError(t, m.Delete(ctx, table.Delete{Key: key}))
	require.NoError(t, m.Check(ctx))
	want := map[table.Operation]int{}
	for _, op := range []table.Operation{
		table.OpGet, table.OpBatchGet, table.OpPut, table.OpUpdate, table.OpDelete, table.OpBatchWrite, table.OpTransact, table.OpQuery,
	} {
		want[op] = 1
	}
	assert.Equal(t, want, meter.Usage().Requests)
	assert.Equal(t, table.Units{Read: 1.5, Write: 6}, meter.Usage().Total())

	own := &table.Meter{}
	_, err = m.Get(table.WithMeter(ctx, own), key)
	require.ErrorIs(t, err, table.ErrNotFound)
	assert.Equal(t, 1, own.Usage().Requests[table.OpGet])
	assert.Equal(t, 1, meter.Usage().Requests[table.OpGet])
}
