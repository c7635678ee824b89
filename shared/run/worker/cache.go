package worker

import (
	"encoding/json"

	"millrace/shared/platform/cache"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
)

// Sizes of a worker's caches in bytes. Flows are cached by package registry.
const (
	inputBytes  = 16 << 20
	listBytes   = 32 << 20 // all instances of a map read its list, which may be 16 MB
	outputBytes = 32 << 20
	paramBytes  = 4 << 20 // of decoded parameters
	weightBytes = 1 << 20 // the decoded sizes of outputs
)

// decodedFactor is the ratio of the memory of decoded JSON to its text.
const decodedFactor = 4

// caches contains data that never changes: inputs, evaluated lists and outputs
// of finished tasks.
type caches struct {
	inputs  *cache.Weighted[string, *runstate.Input]
	lists   *cache.Weighted[outputID, []json.RawMessage]
	outputs *cache.Weighted[outputID, executor.Value]
	params  *cache.Weighted[string, map[string]any]
	weights *cache.Weighted[outputID, int64]
}

type outputID struct {
	run  string
	node engine.Node
}

func newCaches() *caches {
	return &caches{
		inputs:  cache.NewWeighted[string, *runstate.Input](inputBytes),
		lists:   cache.NewWeighted[outputID, []json.RawMessage](listBytes),
		outputs: cache.NewWeighted[outputID, executor.Value](outputBytes),
		params:  cache.NewWeighted[string, map[string]any](paramBytes),
		weights: cache.NewWeighted[outputID, int64](weightBytes),
	}
}

func (c *caches) output(run string, n engine.Node) (executor.Value, bool) {
	return c.outputs.Get(outputID{run, n})
}

// keep caches an output, unless it is so large that it would evict all others.
func (c *caches) keep(run string, n engine.Node, v executor.Value) {
	if len(v.JSON) > outputBytes/8 {
		return
	}
	c.outputs.Add(outputID{run, n}, v, len(v.JSON)+len(v.Ref))
}

func (c *caches) keepInput(run string, in *runstate.Input) {
	c.inputs.Add(run, in, in.Size())
}

func (c *caches) keepList(run string, n engine.Node, list []json.RawMessage) {
	bytes := 0
	for _, element := range list {
		bytes += 48 + len(element)
	}
	c.lists.Add(outputID{run, n}, list, bytes)
}

// parameters returns a run's decoded parameters.
func (c *caches) parameters(run string) (map[string]any, bool) { return c.params.Get(run) }

// keepParameters caches parameters that take time to decode, because the many
// tasks of a wide map share them. size is that of their JSON.
func (c *caches) keepParameters(run string, values map[string]any, size int) {
	if size >= 1<<10 {
		c.params.Add(run, values, size*decodedFactor)
	}
}
