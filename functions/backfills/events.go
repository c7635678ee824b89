package backfills

import (
	"context"
	"strings"

	"millrace/events"
	"millrace/shared/kit/consumer"
	"millrace/shared/run/launch"
	"millrace/shared/web/fn"
)

// launchedAs is the trigger source of a backfill's runs, and what their
// triggered_by begins with.
const launchedAs = launch.Backfill

func eventHandler(d fn.Deps) fn.MessageHandler {
	return d.RepeatableEvents("backfills", lease, consumer.On(events.DetailRunFinished, newService(d).finished))
}

// finished goes on with the backfill of a run that has ended.
func (s *service) finished(ctx context.Context, _ *consumer.Delivery, run events.RunFinished) error {
	id, ours := strings.CutPrefix(run.TriggeredBy, launchedAs+":")
	if !ours || run.Trigger != launchedAs {
		return nil
	}
	return s.advance(ctx, id, run.Run)
}
