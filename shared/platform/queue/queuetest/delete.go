package queuetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

func deleteRemoves(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, short)
	msgs := numbered(queue.MaxBatch+3, "")
	require.NoError(t, qs.Send(t.Context(), name, msgs...))
	first := collect(t, qs, name, len(msgs))
	keep, rest := first[0], first[1:]
	receipts := make([]string, len(rest))
	for i, d := range rest {
		receipts[i] = d.Receipt
	}
	require.NoError(t, qs.Delete(t.Context(), name, receipts...))
	assert.Equal(t, keep.ID, next(t, qs, name).ID, "what was not deleted comes again")
	none(t, qs, name)
}

func deleteTwice(t *testing.T, newQueues NewQueues) {
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Delete(t.Context(), name))
	require.NoError(t, qs.Send(t.Context(), name, queue.Message{Body: body(1)}))
	d := next(t, qs, name)
	require.NoError(t, qs.Delete(t.Context(), name, d.Receipt))
	require.NoError(t, qs.Delete(t.Context(), name, d.Receipt), "what is gone is fine")
}
