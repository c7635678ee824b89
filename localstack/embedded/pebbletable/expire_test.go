package pebbletable_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSweepRemovesExpiredItems(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	db, err := store.Open(filepath.Join(t.TempDir(), "store"), store.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	tbl := pebbletable.New(db, clock.Func(func() time.Time { return now }))

	put := func(sk string, ttl any) {
		item := table.Item{"pk": table.V("p"), "sk": table.V(sk), "ttl": table.V(ttl), "due_pk": table.V("d"), "due_sk": table.V(sk)}
		require.NoError(t, tbl.Put(t.Context(), table.Put{Item: item}))
	}
	left := func(x table.Index, pk string) (sks []string) {
		for item, err := range table.All(t.Context(), tbl, table.Query{Index: x, PK: pk}) {
			require.NoError(t, err)
			sks = append(sks, item.Key().SK)
		}
		return sks
	}
	for i := range 250 {
		put(fmt.Sprintf("old%03d", i), now.Unix()-int64(i)-1)
	}
	put("lives", now.Unix()+10)
	put("never", nil)
	put("prolonged", now.Unix()-5)
	_, err = tbl.Update(t.Context(), table.Update{Key: table.Key{PK: "p", SK: "prolonged"},
		Do: []table.Action{table.Set("ttl", now.Unix()+20)}})
	require.NoError(t, err)

	removed, err := tbl.Sweep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 250, removed)
	assert.Equal(t, []string{"lives", "never", "prolonged"}, left("", "p"))
	assert.Equal(t, []string{"lives", "never", "prolonged"}, left(table.Due, "d"), "its entries go with it")

	now = now.Add(15 * time.Second)
	removed, err = tbl.Sweep(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, removed)
	assert.Equal(t, []string{"never", "prolonged"}, left("", "p"))
}
