package pebbletable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTableWorksInSynctestBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tbl := open(t)
		begun := time.Now()
		key := table.Key{PK: "p", SK: "s"}
		for range 100 {
			go func() {
				_, err := tbl.Update(t.Context(), table.Update{Key: key, Do: []table.Action{table.Add("n", 1)}})
				assert.NoError(t, err)
			}()
		}
		synctest.Wait()
		item, err := tbl.Get(t.Context(), key)
		require.NoError(t, err)
		assert.EqualValues(t, 100, item["n"].Int())
		assert.Equal(t, begun, time.Now(), "nothing of it takes fake time")
	})
}
