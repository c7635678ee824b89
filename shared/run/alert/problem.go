package alert

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
)

// Problem is what the incidents of one rule about one flow report. It is open
// from a message about a problem until a run that ended later has succeeded.
type Problem struct {
	table.Key
	Rule      string       `table:"rule"`
	Flow      string       `table:"flow"`
	Last      clock.Millis `table:"last"`             // when it last occurred
	Recovered clock.Millis `table:"recovered"`        // when a run last succeeded after that; 0: none has
	Expires   int64        `table:"ttl"`              // Unix second
	Run       string       `table:"run_ok,omitempty"` // the run of Recovered
}

// problemRetention is how long a problem that does not occur again is
// remembered.
const problemRetention = 90 * 24 * time.Hour

func problemKey(org, rule, flow string) table.Key {
	return table.Key{PK: org + "#problems", SK: flow + "#" + rule}
}

// Open reports whether the problem has occurred since it was last over.
func (p *Problem) Open() bool { return p.Recovered < p.Last }

// Occurred stores that a problem of a rule and a flow occurred at a time.
func Occurred(ctx context.Context, t table.Table, org, rule, flow string, at, now time.Time) error {
	_, err := t.Update(ctx, table.Update{
		Key: problemKey(org, rule, flow),
		Do: []table.Action{
			table.Set("rule", rule), table.Set("flow", flow), table.Set("last", clock.ToMillis(at)),
			table.SetIfAbsent("recovered", clock.Millis(0)), table.Set(table.TTLAttribute, now.Add(problemRetention).Unix()),
		},
		If: table.Or(table.IsNew(), table.Le("last", clock.ToMillis(at))),
	})
	if err != nil && !errors.Is(err, table.ErrConditionFailed) { // a later one is stored
		return fmt.Errorf("problem of %s: %w", rule, err)
	}
	return nil
}

// Recover stores that a run of the flow succeeded at a time. It reports whether
// that ended the problem: it was open, or ended by the same run.
func (p *Problem) Recover(ctx context.Context, t table.Table, run string, at time.Time) (bool, error) {
	_, err := t.Update(ctx, table.Update{
		Key: p.Key,
		Do:  []table.Action{table.Set("recovered", clock.ToMillis(at)), table.Set("run_ok", run)},
		If: table.And(
			table.IsStored(), table.Le("last", clock.ToMillis(at)),
			table.Or(table.Eq("recovered", p.Recovered), table.Eq("run_ok", run)),
		),
	})
	if errors.Is(err, table.ErrConditionFailed) { // it occurred again, or another run ended it
		return false, nil
	}
	return err == nil, err
}

// Problems returns the problems of a flow, open or not. It is one query.
func Problems(ctx context.Context, t table.Table, org, flow string) ([]Problem, error) {
	var out []Problem
	q := table.Query{PK: problemKey(org, "", flow).PK, Range: table.Prefix(flow + "#"), Consistent: true}
	for item, err := range table.All(ctx, t, q) {
		var p Problem
		if err == nil {
			err = table.Unmarshal(item, &p)
		}
		if err != nil {
			return nil, fmt.Errorf("problems of %s: %w", flow, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// RecoveredSince reports whether a run of the flow succeeded after the rule's
// problem at a time.
func RecoveredSince(ctx context.Context, t table.Table, org, rule, flow string, at time.Time) (bool, error) {
	p, err := table.Load[Problem](ctx, t, problemKey(org, rule, flow), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return false, nil
	}
	return err == nil && p.Recovered >= clock.ToMillis(at), err
}
