package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
	"millrace/shared/run/runstate"
)

// expand evaluates a mapped task's list and writes its width, once, before any
// instance begins.
func (a *attempts) expand(ctx context.Context, w *attempt) (outcome, error) {
	list, err := a.evaluateList(ctx, w)
	var bad *expr.EvalError
	switch {
	case errors.As(err, &bad):
		return a.complete(ctx, w, executor.Final(executor.Expression, "map_over: %s", bad.Msg), nil)
	case err != nil:
		return outcome{}, err
	case len(list) > a.flow.plan.MaxWidth():
		return a.complete(ctx, w, executor.Final(executor.Expression, "map_over: the list has %d elements, at most %d are allowed", len(list), a.flow.plan.MaxWidth()), nil)
	case len(list) == 0:
		return a.complete(ctx, w, executor.Result{Output: executor.Value{JSON: json.RawMessage("[]")}}, nil)
	}
	why, err := a.room(ctx, len(list))
	if err != nil {
		return outcome{}, err
	}
	if why != "" { //guard:limit/items false
		_, err := a.giveBack(ctx, w, why)
		return outcome{}, err
	}
	encoded := make([]json.RawMessage, len(list))
	for i, v := range list {
		if encoded[i], err = expr.Encode(v); err != nil {
			return a.complete(ctx, w, executor.Final(executor.Serialization, "map_over: element %d: %v", i, err), nil)
		}
	}
	do, hash, err := a.keepList(ctx, w, encoded)
	if err != nil {
		return outcome{}, err
	}
	//guard:map/width-first insert _ = a.send(ctx, []ready{{a.flow.plan.Instance(w.ref.Task, 0), 1, 0}}, 0)
	//guard:map/lost-answer false
	item, err := a.conclude(ctx, w, engine.Running, do, func(item *runstate.Node) bool { return item.Width != nil && item.ListHash == hash })
	if err != nil || item == nil {
		return outcome{}, err
	}
	a.cache.keepList(a.id, w.node, encoded)
	a.remember(w.node, item)
	return outcome{item: item}, nil
}

// keepList stores an evaluated list, a small one in the item, and returns the
// actions that record it there, with its hash.
func (a *attempts) keepList(ctx context.Context, w *attempt, list []json.RawMessage) ([]table.Action, string, error) {
	raw, err := json.Marshal(list)
	if err != nil {
		return nil, "", err
	}
	sum := sha256.Sum256(raw)
	hash := hex.EncodeToString(sum[:16])
	do := []table.Action{
		table.Set(runstate.NodeWidth, len(list)),
		table.Set(runstate.NodeListHash, hash),
		table.Remove(runstate.NodeNonce), table.Remove(runstate.NodeLease),
	}
	do = append(do, runstate.ListItems(a.org, len(list))...) //guard:limit/listed drop
	if len(raw) <= runstate.MaxInline {
		do = append(do, table.Set(runstate.NodeList, string(raw)))
	} else {
		key := runstate.Object(a.org, a.id, fmt.Sprintf("list/%d-%d.json", w.node, w.item.Attempt))
		if _, err := blob.PutBytes(ctx, a.Blob, key, raw, blob.PutOptions{ContentType: "application/json"}); err != nil {
			return nil, "", fmt.Errorf("store list: %w", err)
		}
		do = append(do, table.Set(runstate.NodeListRef, key))
	}
	same, err := a.sameList(ctx, w, hash)
	if err != nil {
		return nil, "", err
	}
	if same {
		do = append(do, table.Set(runstate.NodeReuse, true))
	}
	return do, hash, nil
}

// sameList reports whether the source run mapped over the same list.
func (a *attempts) sameList(ctx context.Context, w *attempt, hash string) (bool, error) {
	reused, err := a.reused(ctx)
	if err != nil || reused == nil {
		return false, err
	}
	src, err := runstate.LoadNode(ctx, a.Table, a.org, reused.Run, reused.Place(runstate.Place{Task: w.node}).Task)
	//guard:map/same-list drop operand 3
	return err == nil && src != nil && src.ListHash == hash, err
}
