package conductor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"millrace/shared/blob"
	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/runlog"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// collect ends a mapped task whose instances are all finished.
func (s *session) collect(ctx context.Context, n engine.Node, last done) (*done, error) {
	ref, err := s.flow.plan.Ref(n)
	if err != nil {
		return nil, err
	}
	status := engine.MapStatus(last.outcome) //guard:map/worst arg 1 engine.OutcomeOK
	do := []table.Action{
		table.Set(runstate.NodeStatus, string(status)),
		table.Set(runstate.NodeEnded, int64(millis(s.Clock.Now()))),
	}
	kind, reason := executor.TaskFailed, fmt.Sprintf("not all of its %d instances succeeded", last.width)
	if s.flow.used[ref.Task] {
		out, err := s.gather(ctx, ref.Task, last.width)
		var large tooLarge
		switch {
		case errors.As(err, &large):
			status, kind, reason = engine.Failed, executor.Serialization, large.Error()
			do[0] = table.Set(runstate.NodeStatus, string(status))
		case err != nil:
			return nil, err
		}
		do = append(do, out...)
	}
	text := fmt.Sprintf("Task %s: all instances are finished; %s", s.flow.Tasks[ref.Task].Name, reason)
	if status != engine.Succeeded {
		do = append(do, table.Set(runstate.NodeErrorType, kind), table.Set(runstate.NodeError, reason))
	}
	stored, err := s.Table.Update(ctx, table.Update{
		Key: runstate.NodeKey(s.org, s.id, n), Do: do,
		If: table.And(
			table.Eq(runstate.NodeStatus, string(engine.Running)), //guard:map/ends-once drop
			table.Exists(runstate.NodeWidth),                      //guard:map/width-exists drop
		),
	})
	if failed, ok := errors.AsType[*table.ConditionError](err); ok {
		//guard:map/again return nil, nil
		stored = failed.Old // ended before, by another walk from the last join
	} else if err != nil {
		return nil, fmt.Errorf("end map %d: %w", n, err)
	} else if status == engine.Succeeded {
		s.mapEvent(ref.Task, runlog.TypeTaskSucceeded, "info", fmt.Sprintf("Task %s: all %d instances succeeded", s.flow.Tasks[ref.Task].Name, last.width))
	} else {
		s.mapEvent(ref.Task, runlog.TypeTaskFailed, "error", text)
	}
	if err == nil {
		s.countTask(status)
	}
	item := &runstate.Node{}
	if err := table.Unmarshal(stored, item); err != nil {
		return nil, err
	}
	if !item.Status.Terminal() {
		return nil, nil // stopped meanwhile
	}
	return s.finished(ctx, n, item)
}

// tooLarge is a list of outputs, by its bytes, that no task may be handed.
type tooLarge int64

// Error says what is wrong.
func (n tooLarge) Error() string {
	return fmt.Sprintf("its outputs have %d bytes as a list, at most %d are handed on", int64(n), MaxOutput)
}

// gather makes the list of the instances' outputs, in order, null where one did
// not succeed.
func (s *session) gather(ctx context.Context, task, width int) ([]table.Action, error) {
	items := map[engine.Node]*runstate.Node{}
	first, end, _, _ := s.flow.plan.MapNodes(task, width)
	if err := runstate.LoadSpan(ctx, s.Table, s.org, s.id, runstate.Span{From: first, To: end}, items); err != nil {
		return nil, err
	}
	total := int64(width) + 1 // the brackets and commas
	for n := first; n < end; n++ {
		total += gathered(items[n])
	}
	if total > MaxOutput {
		return nil, tooLarge(total)
	}
	pr, pw := io.Pipe()
	go func() { pw.CloseWithError(s.writeList(ctx, pw, items, first, end)) }()
	defer func() { _ = pr.Close() }()
	if total > runstate.MaxInline {
		key := runstate.Object(s.org, s.id, fmt.Sprintf("out/%d-list.json", task))
		_, err := s.Blob.Put(ctx, key, pr, total, blob.PutOptions{ContentType: "application/json"})
		if err != nil {
			return nil, fmt.Errorf("store outputs of map: %w", err)
		}
		return refActions(executor.Value{Ref: key, Size: total}), nil
	}
	raw, err := io.ReadAll(pr)
	if err != nil {
		return nil, err
	}
	do, _, err := s.keepOutput(ctx, engine.Node(task), 1, executor.Value{JSON: raw})
	return do, err
}

// gathered is how many bytes an instance takes in the list.
func gathered(item *runstate.Node) int64 {
	switch {
	case item == nil || item.Outcome() != engine.OutcomeOK:
		return int64(len("null"))
	case item.OutputRef != "":
		return item.OutputSize
	}
	return int64(len(item.Output))
}

func (s *session) writeList(ctx context.Context, to io.Writer, items map[engine.Node]*runstate.Node, first, end engine.Node) error {
	w := bufio.NewWriterSize(to, 64<<10)
	sep := byte('[')
	for n := first; n < end; n++ {
		_ = w.WriteByte(sep)
		sep = ','
		item := items[n]
		switch {
		case item == nil || item.Outcome() != engine.OutcomeOK: //guard:map/null drop operand 2
			_, _ = w.WriteString("null")
		case item.OutputRef != "":
			body, _, err := s.Blob.Get(ctx, item.OutputRef, nil)
			if err != nil {
				return fmt.Errorf("read output of node %d: %w", n, err)
			}
			_, err = io.Copy(w, body)
			body.Close()
			if err != nil {
				return fmt.Errorf("read output of node %d: %w", n, err)
			}
		default:
			_, _ = w.WriteString(item.Output)
		}
	}
	_ = w.WriteByte(']')
	return w.Flush()
}
