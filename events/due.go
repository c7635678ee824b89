package events

import "time"

// Due is the message that an entry of the due index has come due. It is sent to
// the queue of the entry's kind; its group is the workspace of the item.
type Due struct {
	Kind string    `json:"kind"`
	PK   string    `json:"pk"` // of the due item
	SK   string    `json:"sk"`
	At   time.Time `json:"at"` // when it became due, to the millisecond
	// Now is the time of the tick, for kinds that take it; absent otherwise.
	Now time.Time `json:"now,omitzero"`
}
