package events

// TickType is the event type of [SchedulerTick].
const TickType = "scheduler_tick"

// DefaultMaxDue is the most entries that one tick handles by default.
const DefaultMaxDue = 10_000

// SchedulerTick is the payload with which the per-minute rule invokes
// scheduler-tick.
type SchedulerTick struct {
	EventType string `json:"event_type"`
	MaxDue    int    `json:"max_due"`
	// Now is the time for schedules and polls, RFC 3339. Only the embedded server
	// accepts it.
	Now string `json:"now,omitempty"`
}

// SchedulerTickResult is the result of a tick.
type SchedulerTickResult struct {
	Status    string `json:"status"` // processed
	Checked   int    `json:"checked"`
	Triggered int    `json:"triggered"`
	Failures  int    `json:"failures"`
}
