package queuetest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

// groupsShare sends one message after another group's backlog and checks that
// it does not arrive last. SQS guarantees little more for so short a queue.
func groupsShare(t *testing.T, newQueues NewQueues) {
	const backlog = 60
	qs := one(t, newQueues, long)
	require.NoError(t, qs.Send(t.Context(), name, numbered(backlog, "loud")...))
	require.NoError(t, qs.Send(t.Context(), name, numbered(5, "quiet")...))
	first, all := -1, collect(t, qs, name, backlog+5)
	count := make(map[string]int)
	for i, d := range all {
		if d.Group == "quiet" && first < 0 {
			first = i
		}
		count[d.Group]++
	}
	assert.Equal(t, map[string]int{"loud": backlog, "quiet": 5}, count)
	assert.Less(t, first, backlog, "the quiet group waited for all of the loud one")
}

func queuesApart(t *testing.T, newQueues NewQueues) {
	qs := newQueues(t, queue.Definition{Name: "a", Visibility: long}, queue.Definition{Name: "b", Visibility: long})
	require.NoError(t, qs.Send(t.Context(), "a", queue.Message{Body: body(1)}))
	none(t, qs, "b")
	d := next(t, qs, "a")
	require.NoError(t, qs.Delete(t.Context(), "a", d.Receipt))
	none(t, qs, "a-dead")
}
