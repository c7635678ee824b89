package notifier

import (
	"context"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/kit/consumer"
	"millrace/shared/platform/clock"
	"millrace/shared/run/alert"
	"millrace/shared/web/fn"
)

func handler(d fn.Deps) fn.MessageHandler {
	s := newService(d)
	return d.Events(name, lease, consumer.On(events.DetailRunAlert, s.finished), consumer.On(events.DetailTaskRetried, s.retried))
}

// finished notifies of the end of a run: the rules that wait for it, and those
// whose problem with the flow a success ends.
func (s *service) finished(ctx context.Context, d *consumer.Delivery, run events.RunFinished) error {
	trigger, ok := alert.TriggerOf(run.Status)
	if !ok {
		return nil
	}
	rules, err := alert.RulesAbout(ctx, s.store, run.Flow)
	if err != nil || len(rules) == 0 {
		return err
	}
	m := alert.Message{Org: d.Workspace, At: d.Time, Run: alert.Run{
		RunID: run.Run, RunSlug: run.Slug, FlowName: run.Flow, FlowVersion: run.Version, Environment: run.Environment,
		Status: run.Status, ErrorMessage: known(run.Error), StartedAt: known(run.StartedAt), EndedAt: known(run.EndedAt),
	}}
	for _, m.Rule = range rules {
		if m.Rule.Trigger == trigger {
			if err := s.notify(ctx, m, run.Run); err != nil {
				return fmt.Errorf("rule %s: %w", m.Rule.RuleID, err)
			}
		}
	}
	if trigger != alert.OnSuccess {
		return nil
	}
	created, err := time.Parse(time.RFC3339, run.CreatedAt)
	if err != nil {
		return fmt.Errorf("created_at: %w", err)
	}
	return s.recover(ctx, m, rules, created)
}

// recover resolves the incidents of a flow's problems that a successful run ends.
func (s *service) recover(ctx context.Context, m alert.Message, rules []alert.Rule, created time.Time) error {
	problems, err := alert.Problems(ctx, s.table, m.Org, m.Run.FlowName)
	if err != nil {
		return err
	}
	byID := map[string]alert.Rule{}
	for _, r := range rules {
		byID[r.RuleID] = r
	}
	for i := range problems {
		p := &problems[i]
		rule, known := byID[p.Rule]
		late := known && rule.Trigger == alert.OnSLABreach && rule.Breached(created, m.At, m.At)
		// A problem that this run ended may still lack its deliveries.
		if !known || late || !p.Open() && p.Run != m.Run.RunID {
			continue
		}
		ended, err := p.Recover(ctx, s.table, m.Run.RunID, m.At)
		if err != nil {
			return fmt.Errorf("rule %s: %w", p.Rule, err)
		}
		if ended {
			m.Rule, m.Resolved = rule, true
			if err := s.notify(ctx, m, m.Run.RunID); err != nil {
				return fmt.Errorf("rule %s: %w", p.Rule, err)
			}
		}
	}
	return nil
}

// retried notifies of the retry of a task.
func (s *service) retried(ctx context.Context, d *consumer.Delivery, task events.TaskRetried) error {
	rules, err := alert.RulesFor(ctx, s.store, alert.OnRetry, task.Flow)
	if err != nil {
		return err
	}
	m := alert.Message{
		Org: d.Workspace, At: d.Time,
		Run: alert.Run{
			RunID: task.Run, RunSlug: task.Slug, FlowName: task.Flow, FlowVersion: task.Version, Environment: task.Environment,
			Status: task.Status, StartedAt: known(task.StartedAt),
		},
		Task: &alert.Task{
			TaskName: task.Task, MapIndex: task.MapIndex, Attempt: task.Attempt, ErrorType: task.ErrorType, ErrorMessage: task.Error,
		},
	}
	for _, m.Rule = range rules {
		if err := s.notify(ctx, m, d.DedupeKey); err != nil {
			return fmt.Errorf("rule %s: %w", m.Rule.RuleID, err)
		}
	}
	return nil
}

// known returns a text, nil if it is empty.
func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// knownTime returns a time as text, nil if it is zero.
func knownTime(at clock.Millis) *string { return known(at.String()) }
