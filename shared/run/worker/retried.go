package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/events"
	"millrace/shared/platform/bus"
	"millrace/shared/run/alert"
	"millrace/shared/run/engine"
	"millrace/shared/run/executor"
	"millrace/shared/run/runstate"
)

// reportRetry publishes that a task is tried again, if an alert rule waits for
// it. It is called when the next attempt begins: every retry comes to that, and
// an attempt that cannot report it is given back, so that the event is published
// at least once. A first attempt costs nothing.
func (a *attempts) reportRetry(ctx context.Context, w *attempt) error {
	failed := lastFailed(w.item)
	if failed == nil {
		return nil
	}
	watched, err := alert.Watched(ctx, a.Table, a.org, a.run.Flow, alert.OnRetry)
	if err != nil || !watched {
		return err
	}
	event := events.TaskRetried{
		Org: a.org, Run: a.id, Slug: a.run.Slug, Flow: a.run.Flow, Version: a.run.Version, Environment: a.run.Environment,
		Status: string(a.run.Status), StartedAt: a.run.StartedAt.String(),
		Task: w.task.Name, Attempt: failed.Attempt, FailedAt: failed.EndedAt.String(), ErrorType: failed.ErrorType, Error: failed.Error,
	}
	if w.ref.Kind == engine.KindInstance {
		event.MapIndex = &w.ref.Index
	}
	detail, err := json.Marshal(event)
	if err != nil {
		return err
	}
	err = a.Bus.Publish(ctx, bus.Event{
		DetailType: events.DetailTaskRetried, Detail: detail, Workspace: a.org, Time: failed.EndedAt.Time(),
		DedupeKey: fmt.Sprintf("%s/%d/%d", a.id, w.node, failed.Attempt),
	})
	if err != nil {
		return fmt.Errorf("publish retry: %w", err)
	}
	return nil
}

// lastFailed returns the last attempt of a task that failed by itself, nil if
// there is none. Attempts that were lost with their workers are no retries.
func lastFailed(item *runstate.Node) *runstate.Attempt {
	for i := len(item.History) - 1; i >= 0; i-- {
		if end := &item.History[i]; end.ErrorType != executor.WorkerLost {
			return end
		}
	}
	return nil
}
