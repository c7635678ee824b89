package events_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"millrace/events"
)

func TestQueueNames(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "tasks-small", events.Tasks("small"))
	assert.Equal(t, []string{"runs", "tasks-nano", "tasks-micro", "tasks-small", "tasks-medium", "tasks-large", "tasks-xlarge"}, events.AllQueues())
}
