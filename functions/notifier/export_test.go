package notifier

import (
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/alert"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// Sample returns a delivery that is due, whose message was not sent.
func Sample(org, channel string, now time.Time) table.Put {
	m := alert.Sample("", org, alert.Rule{RuleID: "rule", Trigger: alert.OnFailure}, now)
	d, err := newDelivery(&m, channel, "sample", now)
	if err != nil {
		panic(err)
	}
	return table.Put{Item: d}
}

// SampleRun returns a run that is running.
func SampleRun(org, id string) runstate.Run {
	at, _ := ids.Time(id)
	return runstate.Run{
		Key: runstate.RunKey(org, id), ListEntries: runstate.Lists(org, "sample", "default", id),
		Org: org, ID: id, Flow: "sample", Version: "1", Environment: "default", Status: engine.Running, CreatedAt: clock.ToMillis(at),
	}
}
