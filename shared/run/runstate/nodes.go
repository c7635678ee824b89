package runstate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

// NodeOption configures reads of nodes.
type NodeOption func(*nodeOptions)

type nodeOptions struct{ only []string } // empty: all attributes

// Light reads nodes without their potentially large attributes: Output, List,
// Error, Traceback and History. The items of 10,000 nodes then take a few MB
// instead of hundreds. The read units are the same.
func Light(o *nodeOptions) { o.only = light() }

var light = sync.OnceValue(func() []string {
	return slices.DeleteFunc(table.Attributes[Node](), func(attr string) bool {
		return slices.Contains([]string{NodeOutput, NodeList, NodeError, NodeTraceback, NodeHistory}, attr)
	})
})

// Only reads only the given attributes of nodes.
func Only(attributes ...string) NodeOption {
	return func(o *nodeOptions) { o.only = attributes }
}

func options(opts []NodeOption) (o nodeOptions) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// LoadNode reads a node's item consistently. It returns nil if there is none.
func LoadNode(ctx context.Context, t table.Table, org, run string, n engine.Node, opts ...NodeOption) (*Node, error) {
	item, err := table.Load[Node](ctx, t, NodeKey(org, run, n), table.Consistent, table.Only(options(opts).only...))
	if errors.Is(err, table.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %d of run %s: %w", n, run, err)
	}
	return &item, nil
}

// LoadAll reads the items of some nodes consistently. Nodes without an item are
// missing from the result.
func LoadAll(ctx context.Context, t table.Table, org, run string, nodes []engine.Node, opts ...NodeOption) (map[engine.Node]*Node, error) {
	keys := make([]table.Key, len(nodes))
	for i, n := range nodes {
		keys[i] = NodeKey(org, run, n)
	}
	stored, err := t.BatchGet(ctx, keys, table.Consistent, table.Only(options(opts).only...))
	if err != nil {
		return nil, fmt.Errorf("read %d nodes of run %s: %w", len(nodes), run, err)
	}
	items := make(map[engine.Node]*Node, len(stored))
	for _, item := range stored {
		var n Node
		if err := table.Unmarshal(item, &n); err != nil {
			return nil, err
		}
		items[n.Number()] = &n
	}
	return items, nil
}

// Span is a range of node numbers, the end excluded.
type Span struct{ From, To engine.Node }

// SpanNodes iterates over the items of a range of nodes, read consistently, in
// the order of their numbers. It holds at most one page, a megabyte, at a time.
// The first error ends it.
func SpanNodes(ctx context.Context, t table.Table, org, run string, span Span, opts ...NodeOption) iter.Seq2[*Node, error] {
	only := options(opts).only
	return func(yield func(*Node, error) bool) {
		for shard := int(span.From) / NodesPerShard; shard*NodesPerShard < int(span.To); shard++ {
			from := max(int(span.From), shard*NodesPerShard)
			to := min(int(span.To), (shard+1)*NodesPerShard)
			q := table.Query{
				PK:         NodePartition(org, run, shard),
				Range:      table.Between(fmt.Sprintf("%09d", from), fmt.Sprintf("%09d", to-1)),
				Consistent: true,
				Only:       only,
			}
			for item, err := range table.All(ctx, t, q) {
				if err != nil {
					yield(nil, fmt.Errorf("read nodes of run %s: %w", run, err))
					return
				}
				n := &Node{}
				if err := table.Unmarshal(item, n); err != nil {
					yield(nil, err)
					return
				}
				if !yield(n, nil) {
					return
				}
			}
		}
	}
}

// LoadSpan reads the items of a range of nodes consistently into items.
func LoadSpan(ctx context.Context, t table.Table, org, run string, span Span, items map[engine.Node]*Node, opts ...NodeOption) error {
	for n, err := range SpanNodes(ctx, t, org, run, span, opts...) {
		if err != nil {
			return err
		}
		items[n.Number()] = n
	}
	return nil
}

// Nodes iterates over all items of a run's nodes like [SpanNodes], in the form
// of [Run.Shown]: tasks, then the instances of each map, and joins if joins is
// set.
func Nodes(ctx context.Context, t table.Table, run *Run, p *engine.Plan, joins bool, opts ...NodeOption) iter.Seq2[*Node, error] {
	if only := options(opts).only; len(only) > 0 && !slices.Contains(only, NodeWidth) {
		opts = []NodeOption{Only(append([]string{NodeWidth}, only...)...)} // the width determines the instances
	}
	return func(yield func(*Node, error) bool) {
		widths := map[int]int{}
		end := engine.Node(p.Static())
		if !joins {
			end = p.OnFailure() + 1
		}
		read := func(from, to engine.Node) bool {
			for n, err := range SpanNodes(ctx, t, run.Org, run.ID, Span{from, to}, opts...) {
				if err == nil && n.Width != nil {
					widths[int(n.Number())] = *n.Width
				}
				if err == nil {
					n = run.Shown(n.Number(), n)
				}
				if !yield(n, err) || err != nil {
					return false
				}
			}
			return true
		}
		if !read(0, end) {
			return
		}
		for _, task := range p.Maps() {
			width, evaluated := widths[task]
			if !evaluated {
				continue
			}
			first, end, firstJoin, endJoin := p.MapNodes(task, width)
			if !read(first, end) || joins && !read(firstJoin, endJoin) {
				return
			}
		}
	}
}

// LoadNodes returns the items of [Nodes] as a slice.
func LoadNodes(ctx context.Context, t table.Table, run *Run, p *engine.Plan, joins bool, opts ...NodeOption) (map[engine.Node]*Node, error) {
	items := map[engine.Node]*Node{}
	for n, err := range Nodes(ctx, t, run, p, joins, opts...) {
		if err != nil {
			return nil, err
		}
		items[n.Number()] = n
	}
	return items, nil
}
