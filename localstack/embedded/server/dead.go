package server

import (
	"encoding/json"
	"log/slog"
	"time"

	"millrace/events"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/shared/platform/queue"
)

// tellDead returns a function that logs a message that is given up. The error
// of each of its deliveries was logged before.
func tellDead(log *slog.Logger) func(pebblequeue.DeadLetter) {
	return func(d pebblequeue.DeadLetter) {
		var m events.Run
		_ = json.Unmarshal(d.Body, &m) // messages of the bus and the bucket have none of these fields
		attrs := []any{
			"queue", d.Queue, "kind", m.Kind, "org_id", d.Group, "run_id", m.Run, "deliveries", d.Receives,
			"sent", d.Sent.Format(time.RFC3339),
		}
		if !d.Kept {
			log.Error("message failed too often and is removed: its dead-letter queue is full", attrs...)
			return
		}
		log.Warn("message failed too often and is set aside", append(attrs, "in", queue.Dead(d.Queue))...)
	}
}
