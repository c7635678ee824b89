package events

import "time"

// Due says that an entry of the due index fell due. It goes to the queue of the
// entry's kind; its group is the workspace of the item.
type Due struct {
	Kind string    `json:"kind"`
	PK   string    `json:"pk"` // of the item that is due
	SK   string    `json:"sk"`
	At   time.Time `json:"at"` // when it was due, to the millisecond
	// Now is the time that a tick was given for kinds that take one; absent
	// otherwise.
	Now time.Time `json:"now,omitzero"`
}
