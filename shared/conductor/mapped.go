package conductor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/events"
	"millrace/shared/blob"
	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/expr"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// expand evaluates a mapped task's list and writes its width, once, before any
// instance; then it begins the instances.
func (s *session) expand(ctx context.Context, w *work) (*done, error) {
	list, err := s.evaluateList(ctx, w)
	var bad *expr.EvalError
	switch {
	case errors.As(err, &bad):
		return s.finish(ctx, w, executor.Final(executor.Expression, "map_over: %s", bad.Msg))
	case err != nil:
		return nil, err
	case len(list) > engine.MaxWidth:
		return s.finish(ctx, w, executor.Final(executor.Expression, "map_over: the list has %d elements, at most %d are allowed", len(list), engine.MaxWidth))
	case len(list) == 0:
		return s.finish(ctx, w, executor.Result{Output: executor.Value{JSON: json.RawMessage("[]")}})
	}
	encoded := make([]json.RawMessage, len(list))
	for i, v := range list {
		if encoded[i], err = expr.Encode(v); err != nil {
			return s.finish(ctx, w, executor.Final(executor.Serialization, "map_over: element %d: %v", i, err))
		}
	}
	raw, err := json.Marshal(encoded)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	hash := hex.EncodeToString(sum[:16])
	do := []table.Action{
		table.Set(runstate.NodeWidth, len(list)),
		table.Set(runstate.NodeListHash, hash),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease),
	}
	if len(raw) <= runstate.MaxInline {
		do = append(do, table.Set(runstate.NodeList, string(raw)))
	} else {
		key := runstate.Object(s.org, s.id, fmt.Sprintf("list/%d-%d.json", w.node, w.item.Attempt))
		if _, err := blob.PutBytes(ctx, s.Blob, key, raw, blob.PutOptions{ContentType: "application/json"}); err != nil {
			return nil, fmt.Errorf("store list: %w", err)
		}
		do = append(do, table.Set(runstate.NodeListRef, key))
	}
	same, err := s.sameList(ctx, w, hash)
	if err != nil {
		return nil, err
	}
	if same {
		do = append(do, table.Set(runstate.NodeReuse, true))
	}
	//guard:map/width-first insert _ = s.send(ctx, []ready{{s.flow.plan.Instance(w.ref.Task, 0), 1}}, 0)
	//guard:map/lost-answer false
	item, err := s.conclude(ctx, w, do, func(item *runstate.Node) bool { return item.Width != nil && item.ListHash == hash })
	if err != nil || item == nil {
		return nil, err
	}
	s.cache.keepList(s.id, w.node, encoded)
	s.remember(w.node, item)
	return nil, s.begunParts(ctx, w.node, len(list))
}

func (s *session) evaluateList(ctx context.Context, w *work) ([]any, error) {
	program, err := expr.Compile(w.task.MapOver)
	if err != nil {
		return nil, fmt.Errorf("map_over of %s: %w", w.task.Name, err)
	}
	scope, err := s.scope(ctx, program.Tasks())
	if err != nil {
		return nil, err
	}
	return program.EvalList(ctx, scope)
}

// sameList reports whether the run that is retried mapped over the same list.
func (s *session) sameList(ctx context.Context, w *work, hash string) (bool, error) {
	in, err := s.inputs(ctx)
	if err != nil || in.Reuse == nil {
		return false, err
	}
	src, err := runstate.LoadNode(ctx, s.Table, s.org, in.Reuse.Run, w.node)
	//guard:map/same-list drop operand 3
	return err == nil && src != nil && src.ListHash == hash, err
}

// remember keeps a map's item for its instances: its width and list never change.
func (s *session) remember(n engine.Node, item *runstate.Node) {
	if s.items == nil {
		s.items = map[engine.Node]*runstate.Node{}
	}
	s.items[n] = item
}

// mapItem is the item of a mapped task whose list was evaluated.
func (s *session) mapItem(ctx context.Context, task int) (*runstate.Node, error) {
	n := engine.Node(task)
	if item := s.items[n]; item != nil && item.Width != nil {
		return item, nil
	}
	item, err := runstate.LoadNode(ctx, s.Table, s.org, s.id, n)
	if err != nil {
		return nil, err
	}
	if item == nil || item.Width == nil {
		return nil, fmt.Errorf("conductor: run %s has instances of task %d but no list", s.id, task)
	}
	s.remember(n, item)
	return item, nil
}

// list is the evaluated list of a mapped task.
func (s *session) list(ctx context.Context, task int, item *runstate.Node) ([]json.RawMessage, error) {
	id := outputID{s.id, engine.Node(task)}
	if list, ok := s.cache.lists.Get(id); ok {
		return list, nil
	}
	raw := json.RawMessage(item.List)
	if item.ListRef != "" {
		var err error
		if raw, err = s.object(ctx, item.ListRef); err != nil {
			return nil, err
		}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read list of task %d: %w", task, err)
	}
	s.cache.keepList(s.id, id.node, list)
	return list, nil
}

// begunParts begins the first instances and leaves this worker one of them.
func (s *session) begunParts(ctx context.Context, n engine.Node, width int) error {
	if err := s.expandParts(ctx, n, width); err != nil {
		return err
	}
	return s.goOn(ctx)
}

// expandParts begins a map's instances: a hundred here, a message for each
// further hundred.
func (s *session) expandParts(ctx context.Context, n engine.Node, width int) error {
	var parts []events.Run
	for p := 1; p*engine.FanWidth < width; p++ {
		parts = append(parts, events.Run{Kind: events.RunExpand, Node: int(n), Part: p}) //guard:map/parts when p > 1
	}
	if len(parts) > 0 {
		if err := s.sendAll(ctx, events.Tasks(s.run.Mode), parts, 0); err != nil {
			return err
		}
	}
	return s.expandPart(ctx, n, width, 0)
}

// expandPart makes one hundred instances ready. Those whose results are reused
// are finished at once.
func (s *session) expandPart(ctx context.Context, n engine.Node, width, part int) error {
	ref, err := s.flow.plan.Ref(n)
	if err != nil {
		return err
	}
	item, err := s.mapItem(ctx, ref.Task)
	if err != nil {
		return err
	}
	in, err := s.inputs(ctx)
	if err != nil {
		return err
	}
	var reused []engine.Node
	first, end := part*engine.FanWidth, min((part+1)*engine.FanWidth, width)
	for i := first; i < end; i++ {
		instance := s.flow.plan.Instance(ref.Task, i)
		if item.Reuse && in.Reuse != nil && in.Reuse.Instance(ref.Task, i) { //guard:map/instances false
			reused = append(reused, instance)
			continue
		}
		s.ready = append(s.ready, ready{instance, 1})
	}
	if len(reused) == 0 {
		return nil
	}
	return s.reuseInstances(ctx, in.Reuse.Run, reused)
}

// reuseInstances finishes instances with what the run that is retried made.
func (s *session) reuseInstances(ctx context.Context, source string, nodes []engine.Node) error {
	var before map[engine.Node]*runstate.Node
	var err error
	if s.again {
		if before, err = runstate.LoadAll(ctx, s.Table, s.org, s.id, nodes); err != nil {
			return err
		}
	}
	if s.sources, err = runstate.LoadAll(ctx, s.Table, s.org, source, nodes); err != nil {
		return err
	}
	var finished []done
	for _, n := range nodes {
		ref, err := s.flow.plan.Ref(n)
		if err != nil {
			return err
		}
		var d *done
		if item := before[n]; item != nil && item.Status != "" {
			d, err = s.known(ctx, n, item)
		} else {
			d, err = s.reuse(ctx, n, ref, source)
		}
		if err != nil {
			return err
		}
		if d != nil {
			finished = append(finished, *d)
		}
	}
	return s.walk(ctx, finished...)
}
