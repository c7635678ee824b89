package registry

import (
	"context"
	"fmt"
	"sync"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/cache"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/flowspec"
	"millrace/shared/run/tasktype"
)

// flowBytes limits the memory of parsed flows: four of 3 MB of JSON with 10,000
// tasks, or tens of thousands of small ones.
const flowBytes = 64 << 20

// parsed is a flow with its plans, shared by the whole process.
type parsed struct {
	flow *flowspec.Flow

	mu    sync.Mutex
	plans map[int]*engine.Plan // by version
}

// flowCache caches parsed flows by workspace and hash.
type flowCache struct {
	flows *cache.Weighted[string, *parsed]
	// parsing is held while a flow is parsed. Parsing takes most of the memory
	// when many tasks request a large flow at once.
	parsing sync.Mutex
}

var flows = sync.OnceValue(func() *flowCache {
	return &flowCache{flows: cache.NewWeighted[string, *parsed](flowBytes)}
})

// parse returns the flow of a key, which another call may have parsed
// meanwhile.
func (c *flowCache) parse(key string, content []byte) (*parsed, error) {
	c.parsing.Lock()
	defer c.parsing.Unlock()
	if p, ok := c.flows.Get(key); ok {
		return p, nil
	}
	flow, err := flowspec.Load(content, tasktype.Kinds())
	if err != nil {
		return nil, err
	}
	p := &parsed{flow: flow, plans: map[int]*engine.Plan{}}
	c.flows.Add(key, p, flow.Footprint())
	return p, nil
}

func loadParsed(ctx context.Context, t table.Table, b blob.Store, org, specHash string) (*parsed, error) {
	key := org + "#" + specHash
	if p, ok := flows().flows.Get(key); ok {
		return p, nil
	}
	content, err := LoadSpec(ctx, t, b, org, specHash)
	if err != nil {
		return nil, err
	}
	p, err := flows().parse(key, content)
	if err != nil {
		return nil, fmt.Errorf("parse flow_spec %s: %w", specHash, err)
	}
	return p, nil
}

// LoadFlow returns the parsed flow of a [Version]'s SpecHash. Callers share it
// and must not change it. Loaded flows are cached in memory.
func LoadFlow(ctx context.Context, t table.Table, b blob.Store, org, specHash string) (*flowspec.Flow, error) {
	p, err := loadParsed(ctx, t, b, org, specHash)
	if err != nil {
		return nil, err
	}
	return p.flow, nil
}

// LoadPlan is like [LoadFlow] and also returns the flow's plan of a version,
// that of a run. An unknown version is an error.
func LoadPlan(ctx context.Context, t table.Table, b blob.Store, org, specHash string, version int) (*flowspec.Flow, *engine.Plan, error) {
	p, err := loadParsed(ctx, t, b, org, specHash)
	if err != nil {
		return nil, nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	plan, ok := p.plans[version]
	if !ok {
		if plan, err = engine.PlanOf(version, engine.Defs(p.flow)); err != nil {
			return nil, nil, err
		}
		p.plans[version] = plan
	}
	return p.flow, plan, nil
}
