package alert

import (
	"context"
	"fmt"
	"slices"

	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

// TriggerOf returns the trigger of the end of a run. ok is false if there is
// none: the run was cancelled, or has not ended.
func TriggerOf(status string) (t Trigger, ok bool) {
	switch engine.Status(status) {
	case engine.Failed, engine.TimedOut:
		return OnFailure, true
	case engine.Succeeded:
		return OnSuccess, true
	}
	return "", false
}

// Watched reports whether something that happened to a flow concerns the
// workspace's alert rules: one waits for the trigger, or, on success, an incident
// of the flow is open. In a workspace without rules it is one query that finds
// nothing. It decides whether an event is published at all, which would cost
// more.
func Watched(ctx context.Context, t table.Table, org, flow string, trigger Trigger) (bool, error) {
	others := false // rules that may have opened an incident
	for item, err := range table.All(ctx, t, table.Query{PK: org + "#" + RuleKind.Folder}) {
		var r Rule
		if err == nil {
			err = table.Unmarshal(item, &r)
		}
		if err != nil {
			return false, fmt.Errorf("alert rules of %s: %w", flow, err)
		}
		if !r.Applies(flow) {
			continue
		}
		if r.Trigger == trigger {
			return true, nil
		}
		others = others || r.Trigger != OnSuccess
	}
	if trigger != OnSuccess || !others {
		return false, nil
	}
	problems, err := Problems(ctx, t, org, flow)
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Open() }), err
}
