package runstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/blob"
	"millrace/shared/engine"
	"millrace/shared/errs"
	"millrace/shared/table"
)

// MaxInput is the most bytes an [Input] may have.
const MaxInput = 8 << 20

// GetRun reads a run's record, consistently. Errors: errs.NotFound.
func GetRun(ctx context.Context, t table.Table, org, run string) (Run, error) {
	r, err := table.Load[Run](ctx, t, RunKey(org, run), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return Run{}, errs.New(errs.NotFound, "Run not found: %s", run)
	}
	return r, err
}

// LoadInput reads what a run was accepted with.
func LoadInput(ctx context.Context, t table.Table, b blob.Store, org, run string) (*Input, error) {
	item, err := table.Load[InputItem](ctx, t, InputKey(org, run), table.Consistent)
	if err != nil {
		return nil, fmt.Errorf("read input of run %s: %w", run, err)
	}
	data := []byte(item.Data)
	if item.Ref != "" {
		if data, _, err = blob.GetBytes(ctx, b, item.Ref, MaxInput); err != nil {
			return nil, fmt.Errorf("read input of run %s: %w", run, err)
		}
	}
	var in Input
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read input of run %s: %w", run, err)
	}
	return &in, nil
}

// StoreInput makes the item of an input; a large one goes to the object store
// before the item is returned.
func StoreInput(ctx context.Context, b blob.Store, org, run string, in *Input) (InputItem, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return InputItem{}, fmt.Errorf("encode input: %w", err)
	}
	item := InputItem{Key: InputKey(org, run)}
	if buf.Len() <= MaxInline {
		item.Data = buf.String()
		return item, nil
	}
	item.Ref = Object(org, run, "input.json")
	if _, err := blob.PutBytes(ctx, b, item.Ref, buf.Bytes(), blob.PutOptions{ContentType: "application/json"}); err != nil {
		return InputItem{}, fmt.Errorf("store input: %w", err)
	}
	return item, nil
}

// LoadNode reads a node's item consistently; nil if it has none.
func LoadNode(ctx context.Context, t table.Table, org, run string, n engine.Node) (*Node, error) {
	item, err := table.Load[Node](ctx, t, NodeKey(org, run, n), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read node %d of run %s: %w", n, run, err)
	}
	return &item, nil
}

// LoadAll reads the items of some nodes consistently; those that have none are
// missing from the answer.
func LoadAll(ctx context.Context, t table.Table, org, run string, nodes []engine.Node) (map[engine.Node]*Node, error) {
	keys := make([]table.Key, len(nodes))
	for i, n := range nodes {
		keys[i] = NodeKey(org, run, n)
	}
	stored, err := t.BatchGet(ctx, keys, table.Consistent)
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

// LoadSpan reads the items of a range of nodes consistently into items.
func LoadSpan(ctx context.Context, t table.Table, org, run string, span Span, items map[engine.Node]*Node) error {
	for shard := int(span.From) / NodesPerShard; shard*NodesPerShard < int(span.To); shard++ {
		from := max(int(span.From), shard*NodesPerShard)
		to := min(int(span.To), (shard+1)*NodesPerShard)
		q := table.Query{
			PK:         NodePartition(org, run, shard),
			Range:      table.Between(fmt.Sprintf("%09d", from), fmt.Sprintf("%09d", to-1)),
			Consistent: true,
		}
		for item, err := range table.All(ctx, t, q) {
			if err != nil {
				return fmt.Errorf("read nodes of run %s: %w", run, err)
			}
			var n Node
			if err := table.Unmarshal(item, &n); err != nil {
				return err
			}
			items[n.Number()] = &n
		}
	}
	return nil
}

// LoadNodes reads all items of a run's nodes: tasks, then the instances of its
// maps, with joins if they are asked for.
func LoadNodes(ctx context.Context, t table.Table, run *Run, p *engine.Plan, joins bool) (map[engine.Node]*Node, error) {
	items := map[engine.Node]*Node{}
	end := engine.Node(p.Static())
	if !joins {
		end = p.OnFailure() + 1
	}
	if err := LoadSpan(ctx, t, run.Org, run.ID, Span{0, end}, items); err != nil {
		return nil, err
	}
	for _, task := range p.Maps() {
		item := items[engine.Node(task)]
		if item == nil || item.Width == nil {
			continue
		}
		first, end, firstJoin, endJoin := p.MapNodes(task, *item.Width)
		if err := LoadSpan(ctx, t, run.Org, run.ID, Span{first, end}, items); err != nil {
			return nil, err
		}
		if joins {
			if err := LoadSpan(ctx, t, run.Org, run.ID, Span{firstJoin, endJoin}, items); err != nil {
				return nil, err
			}
		}
	}
	return items, nil
}
