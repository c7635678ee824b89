package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

const outputs = `
def produce(ctx):
    return "x" * (ctx.params["bytes"] - 2)

def consume(produce):
    return len(produce)

def part(item, ctx):
    return "y" * (ctx.params["bytes"] - 2)

def whole(part):
    return [len(part), sum(map(len, part))]
`

// TestLargeOutputs passes the largest output from task to task. The server must
// never hold it in memory.
func TestLargeOutputs(t *testing.T) {
	s := start(t)
	each := python("part")
	each["map_over"] = "lists.range(8)"
	s.upload("large", outputs, python("produce"), python("consume", "produce"), transform("known", "size(tasks.produce.output)", "produce"))
	s.upload("gathered", outputs, each, python("whole", "part"))
	bytes := size(24<<20, 256<<20)

	began := time.Now()
	id := s.begin(client.RunRequest{Deployment: "large", ExecutionMode: "large", Parameters: object{"bytes": bytes}}).RunID
	s.end(id, 2*time.Minute)
	run, err := s.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "SUCCEEDED", run.Task("consume")[0].Status, "%+v", run)
	assert.Equal(t, "FAILED", run.Task("known")[0].Status)
	assert.Contains(t, run.Task("known")[0].ErrorMessage, "expressions read at most 16777216", "it is refused, not read into memory")
	assert.EqualValues(t, bytes-2, number(t, run.Task("consume")[0].Output))
	assert.NotEmpty(t, run.Task("produce")[0].OutputURI)
	t.Logf("an output of %d MB in %s; peak memory %d MB", bytes>>20, time.Since(began).Round(time.Millisecond), s.peak()>>20)
	assert.Less(t, s.peak(), int64(150<<20))

	// Eight outputs form a list of the largest permitted size.
	began = time.Now()
	part := (bytes - 16) / 8
	id = s.begin(client.RunRequest{Deployment: "gathered", ExecutionMode: "large", Parameters: object{"bytes": part}}).RunID
	require.Equal(t, "SUCCEEDED", s.end(id, 5*time.Minute).Status)
	t.Logf("a list of %d MB in %s; peak memory %d MB", bytes>>20, time.Since(began).Round(time.Millisecond), s.peak()>>20)
	assert.Less(t, s.peak(), int64(150<<20))
}

// TestOversizedOutputFailsTask checks the error message, too.
func TestOversizedOutputFailsTask(t *testing.T) {
	s := start(t)
	each := python("part")
	each["map_over"] = "lists.range(8)"
	s.upload("large", outputs, python("produce"), python("consume", "produce"))
	s.upload("gathered", outputs, each, python("whole", "part"))
	const limit = 256 << 20
	id := s.begin(client.RunRequest{Deployment: "large", ExecutionMode: "large", Parameters: object{"bytes": limit + 1}}).RunID
	run := s.end(id, 2*time.Minute)
	require.Equal(t, "FAILED", run.Status)
	assert.Contains(t, run.ErrorMessage, "ArtifactSerializationError: the output is 268435457 bytes of JSON; the limit is 268435456")

	id = s.begin(client.RunRequest{Deployment: "gathered", ExecutionMode: "large", Parameters: object{"bytes": limit / 8}}).RunID
	run = s.end(id, 5*time.Minute)
	require.Equal(t, "FAILED", run.Status)
	assert.Contains(t, run.ErrorMessage, "part (ArtifactSerializationError: its outputs have 268435465 bytes as a list, at most 268435456 are handed on)")

	// A nano task does not have enough memory for it.
	id = s.begin(client.RunRequest{Deployment: "large", Parameters: object{"bytes": limit}}).RunID
	run = s.end(id, 2*time.Minute)
	require.Equal(t, "FAILED", run.Status)
	assert.Contains(t, run.ErrorMessage, "memory")
	assert.Less(t, s.peak(), int64(150<<20))
}
