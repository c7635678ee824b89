package dynamo

import (
	"fmt"
	"testing"

	"millrace/shared/platform/table"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// left is a batch write's response that leaves n writes unprocessed.
func left(n int) answer {
	items := ""
	for i := range n {
		if i > 0 {
			items += ","
		}
		items += fmt.Sprintf(`{"PutRequest":{"Item":{"pk":{"S":"p"},"sk":{"S":"%d"}}}}`, i)
	}
	return ok(`{"UnprocessedItems":{"things":[` + items + `]},"ConsumedCapacity":[{"TableName":"things","CapacityUnits":1,"Table":{"CapacityUnits":1}}]}`)
}

func writes(n int) []table.Write {
	out := make([]table.Write, n)
	for i := range out {
		out[i] = table.Put{Item: item(fmt.Sprint(i))}
	}
	return out
}

func (r request) writes() int {
	return len(r.body["RequestItems"].(map[string]any)["things"].([]any))
}

func TestUnprocessedWritesAreSentAgain(t *testing.T) {
	t.Parallel()
	tbl, srv := serving(t, left(7), left(2), ok(`{}`))
	meter := &table.Meter{}
	require.NoError(t, tbl.BatchWrite(table.WithMeter(t.Context(), meter), writes(30)))
	var sizes []int
	for _, r := range srv.requests {
		sizes = append(sizes, r.writes())
	}
	assert.Equal(t, []int{25, 7, 2, 5}, sizes)
	assert.Equal(t, 4, meter.Usage().Requests[table.OpBatchWrite])
	assert.Equal(t, table.Units{Write: 2}, meter.Usage().Table)
}

func TestBatchWithoutProgressIsThrottled(t *testing.T) {
	t.Parallel()
	tbl, srv := serving(t, left(3))
	require.ErrorIs(t, tbl.BatchWrite(t.Context(), writes(3)), table.ErrThrottled)
	assert.Len(t, srv.requests, maxAttempts)
}

func TestBatchWithProgressContinues(t *testing.T) {
	t.Parallel()
	var script []answer
	for n := 20; n >= 0; n-- {
		script = append(script, left(n))
	}
	tbl, srv := serving(t, script...)
	require.NoError(t, tbl.BatchWrite(t.Context(), writes(21)))
	assert.Len(t, srv.requests, 21)
}

func TestUnprocessedReadsAreSentAgain(t *testing.T) {
	t.Parallel()
	keyOf := func(sk string) string { return `{"pk":{"S":"p"},"sk":{"S":"` + sk + `"}}` }
	tbl, srv := serving(t,
		ok(`{"Responses":{"things":[`+keyOf("b")+`]},"UnprocessedKeys":{"things":{"Keys":[`+keyOf("a")+`,`+keyOf("c")+`]}}}`),
		ok(`{"Responses":{"things":[`+keyOf("c")+`,`+keyOf("a")+`]}}`))
	items, err := tbl.BatchGet(t.Context(), []table.Key{{PK: "p", SK: "a"}, {PK: "p", SK: "b"}, {PK: "p", SK: "c"}}, table.Consistent)
	require.NoError(t, err)
	assert.Equal(t, []table.Item{item("a"), item("b"), item("c")}, items)
	require.Len(t, srv.requests, 2)
	again := srv.requests[1].body["RequestItems"].(map[string]any)["things"].(map[string]any)
	assert.Len(t, again["Keys"], 2)
	assert.Equal(t, true, again["ConsistentRead"])
}
