package memory_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/memory"
	"millrace/shared/clock"
	"millrace/shared/table"
	"millrace/shared/table/tabletest"
)

func TestTable(t *testing.T) {
	t.Parallel()
	tabletest.Exercise(t, func(*testing.T) table.Table { return memory.NewTable(clock.System{}) })
}

func TestSweep(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	tbl := memory.NewTable(clock.Func(func() time.Time { return now }))
	for sk, ttl := range map[string]int{"past": 999, "now": 1000, "never": 0} {
		item := table.Item{"pk": table.V("p"), "sk": table.V(sk), "l1_pk": table.V("l"), "l1_sk": table.V(sk), table.TTLAttribute: table.V(ttl)}
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: item}))
	}
	assert.Equal(t, 1, tbl.Sweep())
	assert.Equal(t, 0, tbl.Sweep())
	for _, q := range []table.Query{{PK: "p"}, {Index: table.ByList, PK: "l"}} {
		page, err := tbl.Query(t.Context(), q)
		require.NoError(t, err)
		require.Len(t, page.Items, 2)
		assert.Equal(t, "never", page.Items[0].Key().SK)
	}
}
