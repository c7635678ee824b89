package worker

import (
	"context"
	"encoding/json"
	"fmt"

	"millrace/events"
	"millrace/shared/account/quota"
	"millrace/shared/platform/bus"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
	"millrace/shared/run/runstate"
)

// archive archives the log of a terminal run and publishes its end. Only then
// does the run leave the due index, and begin to expire. It may be repeated.
func (l *lifecycle) archive(ctx context.Context) error {
	if l.run.Archived {
		return nil
	}
	if err := l.Logs.Archive(ctx, l.org, l.id); err != nil { //guard:due/archive false
		return err
	}
	run := l.run
	detail, err := json.Marshal(events.RunFinished{
		Org: run.Org, Run: run.ID, Slug: run.Slug, Flow: run.Flow, Version: run.Version, Deployment: run.Deployment,
		Environment: run.Environment, Status: string(run.Status), Trigger: run.Trigger, TriggeredBy: run.By,
		CreatedAt: run.CreatedAt.String(), StartedAt: run.StartedAt.String(), EndedAt: run.EndedAt.String(),
		DurationMS: run.Duration(), Error: run.Error,
	})
	if err != nil {
		return err
	}
	finished := bus.Event{DetailType: events.DetailRunFinished, Detail: detail, Workspace: l.org, Time: run.EndedAt.Time(), DedupeKey: run.ID}
	all := []bus.Event{finished}
	if trigger, ok := alert.TriggerOf(string(run.Status)); ok {
		watched, err := alert.Watched(ctx, l.Table, l.org, run.Flow, trigger)
		if err != nil {
			return err
		}
		if watched {
			finished.DetailType = events.DetailRunAlert
			all = append(all, finished)
		}
	}
	err = l.Bus.Publish(ctx, all...)
	if err != nil { //guard:due/published false
		return fmt.Errorf("publish end of run: %w", err)
	}
	do := []table.Action{
		table.Set(runstate.RunArchived, true),
		table.Remove(runstate.DuePK), table.Remove(runstate.DueSK), //guard:due/left drop
	}
	if expires := l.Quota.Expiry(l.org, quota.RunDays, run.EndedAt.Time()); expires != 0 {
		do = append(do, table.Set(table.TTLAttribute, expires))
	}
	_, err = l.Table.Update(ctx, table.Update{Key: runstate.RunKey(l.org, l.id), Do: do})
	if err != nil {
		return fmt.Errorf("take run off the due index: %w", err)
	}
	return nil
}
