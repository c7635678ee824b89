package events

// TickType is the event type of [SchedulerTick].
const TickType = "scheduler_tick"

// DefaultMaxDue is how much one tick sees to if it names no bound.
const DefaultMaxDue = 10_000

// SchedulerTick is what the per-minute rule invokes scheduler-tick with.
type SchedulerTick struct {
	EventType string `json:"event_type"`
	MaxDue    int    `json:"max_due"`
	// Now sets the clock for schedules and polls, RFC 3339; taken on the
	// embedded server only.
	Now string `json:"now,omitempty"`
}

// SchedulerTickResult is the answer to a tick.
type SchedulerTickResult struct {
	Status    string `json:"status"` // processed
	Checked   int    `json:"checked"`
	Triggered int    `json:"triggered"`
	Failures  int    `json:"failures"`
}
