package conductor

import (
	"encoding/json"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"

	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/runstate"
)

// The sizes of a worker's caches.
const (
	cachedFlows   = 256
	cachedInputs  = 4096
	cachedLists   = 64
	cachedOutputs = 16384
	cachedBytes   = 32 << 20 // of outputs
)

// caches keep what never changes: flows, inputs, evaluated lists and outputs of
// finished tasks.
type caches struct {
	flows  *lru.Cache[string, *compiled]
	inputs *lru.Cache[string, *runstate.Input]
	lists  *lru.Cache[outputID, []json.RawMessage]

	mu      sync.Mutex
	outputs *lru.Cache[outputID, executor.Value]
	bytes   int
}

type outputID struct {
	run  string
	node engine.Node
}

func newCaches() *caches {
	c := &caches{}
	c.flows = must(lru.New[string, *compiled](cachedFlows))
	c.inputs = must(lru.New[string, *runstate.Input](cachedInputs))
	c.lists = must(lru.New[outputID, []json.RawMessage](cachedLists))
	c.outputs = must(lru.NewWithEvict(cachedOutputs, func(_ outputID, v executor.Value) { c.bytes -= len(v.JSON) }))
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // a size below one
	}
	return v
}

func (c *caches) output(run string, n engine.Node) (executor.Value, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.outputs.Get(outputID{run, n})
}

func (c *caches) keep(run string, n engine.Node, v executor.Value) {
	if len(v.JSON) > cachedBytes/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.outputs.Contains(outputID{run, n}) {
		return
	}
	c.bytes += len(v.JSON)
	c.outputs.Add(outputID{run, n}, v)
	for c.bytes > cachedBytes {
		c.outputs.RemoveOldest()
	}
}
