package notifier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/kit/due"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
	"millrace/shared/run/runstate"
)

// mostRuns is the number of runs of one look. The next follows at once.
const mostRuns = 200

// look notifies of the runs that exceed the SLA of a rule. It reads those that
// have become old enough since the last look, with one query, and each of them
// once. The instant that counts is created_at: what waits too long in a queue is
// late as well.
func (s *service) look(ctx context.Context, task due.Task) error {
	rule, found, err := alert.Rules(s.store).Find(ctx, task.Key.SK)
	if err != nil || !found || !rule.DueAt.Time().Equal(task.At) {
		return err
	}
	now := s.clock.Now()
	from, to := rule.Span(now)
	looked, next := from, rule.NextLook(now)
	if to.After(from) && rule.Enabled {
		keys, reached, err := s.created(ctx, &rule, task.Org(), from, to)
		if err != nil {
			return err
		}
		if err := s.breaches(ctx, &rule, keys, now); err != nil {
			return err
		}
		if looked = reached; looked.Before(to) {
			next = later(now, task.At)
		}
	}
	_, err = s.table.Update(ctx, due.Move(task, next, alert.LookedTo(looked)))
	if errors.Is(err, table.ErrConditionFailed) {
		return nil // another made this look
	}
	if err != nil {
		return fmt.Errorf("rule %s: %w", rule.RuleID, err)
	}
	if next.Sub(now) >= time.Minute {
		return nil // the tick hands it out
	}
	m, err := due.Message(alert.SLA, task.Key, alert.SLA.Entry(task.Key, next).DueSK, time.Time{})
	if err == nil {
		m.Delay = max(next.Sub(now), 0)
		err = s.queues.Send(ctx, alert.SLA.Queue(), m)
	}
	if err != nil { // the tick repeats it
		s.log.WarnContext(ctx, "next look for late runs delayed", "rule", rule.RuleID, "error", err)
	}
	return nil
}

// later returns now, or, if that is not later than the time when a task was due, the
// first time after it: an item that is moved to another time is not handed out
// twice.
func later(now, due time.Time) time.Time {
	if next := due.Add(time.Millisecond); next.After(now) {
		return next
	}
	return now
}

// created returns the keys of the runs of a rule's flow, or of all flows, that
// were created in a span of time, and up to which time it found all of them.
func (s *service) created(ctx context.Context, rule *alert.Rule, org string, from, to time.Time) (keys []table.Key, reached time.Time, err error) {
	flow := ""
	if rule.FlowName != nil {
		flow = *rule.FlowName
	}
	q := table.Query{
		Index: runstate.ListIndex(flow, ""), PK: runstate.ListPartition(org, flow, ""),
		Range: table.Between(ids.First(from), ids.First(to)), Limit: mostRuns,
	}
	for item, err := range table.All(ctx, s.table, q) {
		if err != nil {
			return nil, reached, fmt.Errorf("runs of rule %s: %w", rule.RuleID, err)
		}
		entry, _ := item.Entry(q.Index)
		if at, ok := ids.Time(entry.SK); ok && len(keys) >= mostRuns && at.After(reached) {
			return keys, at, nil
		} else if ok {
			reached = at
		}
		keys = append(keys, item.Key())
	}
	return keys, to, nil
}

// breaches notifies of those runs that exceed the rule's SLA.
func (s *service) breaches(ctx context.Context, rule *alert.Rule, keys []table.Key, now time.Time) error {
	items, err := s.table.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return fmt.Errorf("runs of rule %s: %w", rule.RuleID, err)
	}
	runs, err := table.Decode[runstate.Run](items)
	if err != nil {
		return fmt.Errorf("runs of rule %s: %w", rule.RuleID, err)
	}
	for i := range runs {
		run, ended := &runs[i], time.Time{}
		if run.Status.RunEnded() {
			ended = run.EndedAt.Time()
		}
		if !rule.Breached(run.CreatedAt.Time(), ended, now) {
			continue
		}
		m := alert.Message{Org: run.Org, At: now, Rule: *rule, Run: alert.Run{
			RunID: run.ID, RunSlug: run.Slug, FlowName: run.Flow, FlowVersion: run.Version, Environment: run.Environment,
			Status: string(run.Status), ErrorMessage: known(run.Error), StartedAt: knownTime(run.StartedAt), EndedAt: knownTime(run.EndedAt),
		}}
		if err := s.notify(ctx, m, run.ID); err != nil {
			return fmt.Errorf("rule %s: %w", rule.RuleID, err)
		}
	}
	return nil
}
