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
	cachedParams  = 64
	paramBytes    = 2 << 20 // of decoded parameters, as JSON
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

	paramsMu   sync.Mutex
	params     *lru.Cache[string, decoded]
	paramBytes int
}

// decoded is a run's parameters as expressions see them.
type decoded struct {
	values map[string]any
	size   int // as JSON
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
	c.params = must(lru.NewWithEvict(cachedParams, func(_ string, d decoded) { c.paramBytes -= d.size }))
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

// parameters returns a run's decoded parameters.
func (c *caches) parameters(run string) (map[string]any, bool) {
	c.paramsMu.Lock()
	defer c.paramsMu.Unlock()
	d, ok := c.params.Get(run)
	return d.values, ok
}

// keepParameters keeps those that take time to decode: the many tasks of a wide
// map share them.
func (c *caches) keepParameters(run string, values map[string]any, size int) {
	if size < 1<<10 {
		return
	}
	c.paramsMu.Lock()
	defer c.paramsMu.Unlock()
	if c.params.Contains(run) {
		return
	}
	c.paramBytes += size
	c.params.Add(run, decoded{values, size})
	for c.paramBytes > paramBytes {
		c.params.RemoveOldest()
	}
}
