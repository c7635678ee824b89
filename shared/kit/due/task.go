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

// Task is an entry that was handed out: an item is due. It may be handed out more
// than once, also after it was dealt with.
type Task struct {
	Kind string
	Key  table.Key // of the item that is due
	At   time.Time // since when, to the millisecond
	// Now is the time to act by: of the tick, if it brought one and the kind takes
	// it, else the clock's. It may go backwards from task to task.
	Now time.Time
}

// Org is the workspace of the item.
func (t Task) Org() string { return Org(t.Key) }

// IsDue holds as long as the item is due as the task says: until its entry was
// moved, ended or set anew, or the item was deleted.
func (t Task) IsDue() table.Cond { return table.Eq(attrAt, clock.ToMillis(t.At)) }

// Move is the write that has the task's item come due at another time, with more
// changes of the item if there are any. It fails with table.ErrConditionFailed if
// the item is no longer due as the task says: somebody else dealt with it, and
// nothing is left to do. A time equal to the task's leaves the item due.
func Move(t Task, to time.Time, more ...table.Action) table.Update {
	entry := Kind{Name: t.Kind}.Entry(t.Key, to)
	return table.Update{Key: t.Key, Do: append(entry.Set(), more...), If: t.IsDue()} //guard:due/once drop field If
}

// End is the write that takes the task's item out of the due index, with more
// changes of the item if there are any. It fails as [Move] does.
func End(t Task, more ...table.Action) table.Update { return Move(t, time.Time{}, more...) }

// Message is what a task is handed out by. now is the time that the tick brought,
// the zero time if it brought none.
func Message(kind Kind, key table.Key, sk string, now time.Time) (queue.Message, error) {
	at, ok := At(sk)
	if !ok {
		return queue.Message{}, fmt.Errorf("due: the sort key %q tells no time", sk)
	}
	m := events.Due{Kind: kind.Name, PK: key.PK, SK: key.SK, At: at}
	if kind.TakesNow {
		m.Now = now
	}
	body, err := json.Marshal(m)
	return queue.Message{Body: body, Group: Org(key)}, err
}

// ReadTask reads what Message wrote. A message without a time of its own takes
// now.
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
		return Task{}, errors.New("due: the message names no item, or no time")
	}
	return t, nil
}
