package due

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
)

// Task is a due entry that was handed out. It may be handed out more than once,
// even after it was handled.
type Task struct {
	Kind string
	Key  table.Key // of the item that is due
	At   time.Time // when the item became due, to the millisecond
	// Now is the time to act at: the tick's, if it has one and the kind takes it,
	// otherwise the clock's. It may go backwards from task to task.
	Now time.Time
}

// Org returns the workspace of the item.
func (t Task) Org() string { return Org(t.Key) }

// IsDue holds while the item is due at the task's time: until its entry is
// moved, ended or set again, or the item is deleted.
func (t Task) IsDue() table.Cond { return table.Eq(attrAt, clock.ToMillis(t.At)) }

// Move returns the write that makes the task's item due at another time, with
// further changes of the item if there are any. It fails with
// table.ErrConditionFailed if the item is no longer due at the task's time: the
// task was handled elsewhere, and nothing is left to do. Moving to the task's
// own time leaves the item due.
func Move(t Task, to time.Time, more ...table.Action) table.Update {
	entry := Kind{Name: t.Kind}.Entry(t.Key, to)
	return table.Update{Key: t.Key, Do: append(entry.Set(), more...), If: t.IsDue()} //guard:due/once drop field If
}

// End returns the write that removes the task's item from the due index, with
// further changes of the item if there are any. It fails like [Move].
func End(t Task, more ...table.Action) table.Update { return Move(t, time.Time{}, more...) }

// Message returns the message of a task. now is the time of the tick, the zero
// time if it has none.
func Message(kind Kind, key table.Key, sk string, now time.Time) (queue.Message, error) {
	at, ok := At(sk)
	if !ok {
		return queue.Message{}, fmt.Errorf("due: the sort key %q has no time", sk)
	}
	m := events.Due{Kind: kind.Name, PK: key.PK, SK: key.SK, At: at}
	if kind.TakesNow {
		m.Now = now
	}
	body, err := json.Marshal(m)
	return queue.Message{Body: body, Group: Org(key)}, err
}

// ReadTask parses a message. now applies to a message without a time of its
// own.
func ReadTask(body []byte, now time.Time) (Task, error) {
	var m events.Due
	if err := json.Unmarshal(body, &m); err != nil {
		return Task{}, err
	}
	t := Task{Kind: m.Kind, Key: table.Key{PK: m.PK, SK: m.SK}, At: m.At.UTC(), Now: m.Now.UTC()}
	if m.Now.IsZero() {
		t.Now = now
	}
	if err := (Kind{Name: t.Kind}).Check(); err != nil {
		return Task{}, err
	}
	if t.Org() == "" || t.Key.SK == "" || t.At.IsZero() {
		return Task{}, errors.New("due: the message has no item or no time")
	}
	return t, nil
}
