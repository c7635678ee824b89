package schedulertick

import (
	"encoding/json"
	"fmt"
	"time"

	"millrace/events"
	"millrace/shared/kit/due"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

// entry is a due item: its key, and its entry in the due index.
type entry struct {
	key table.Key
	due table.DueEntry
}

// source is one kind of entries: where they are stored, and which message hands
// them out.
type source struct {
	name       string
	queue      string    // for their messages
	now        time.Time // entries up to this time are due
	partitions []string
	message    func(entry) (queue.Message, error)
	// postponed returns the moved entry for one that was handed out.
	postponed func(entry) (table.DueEntry, error)
}

// sources returns the sources of a tick: runs, and the kinds of timed work.
// Kinds that take the time of a tick use brought; it is the zero time if the
// tick carries none.
func (s service) sources(brought time.Time) []*source {
	now := s.clock.Now()
	list := []*source{runs(now)}
	for _, kind := range s.kinds {
		list = append(list, timed(kind, now, brought))
	}
	return list
}

// runs returns the source of live runs, which are due for reconciliation.
func runs(now time.Time) *source {
	parse := func(e entry) (org, run string, err error) {
		org, run, ok := runstate.ParseRunKey(e.key.PK)
		if !ok {
			return "", "", fmt.Errorf("%q is not the key of a run", e.key.PK)
		}
		return org, run, nil
	}
	src := &source{
		name: "run", queue: events.Runs, now: now,
		message: func(e entry) (queue.Message, error) {
			org, run, err := parse(e)
			if err != nil {
				return queue.Message{}, err
			}
			body, err := json.Marshal(events.Run{Kind: events.RunReconcile, Org: org, Run: run})
			return queue.Message{Body: body, Group: org}, err
		},
		postponed: func(e entry) (table.DueEntry, error) {
			org, run, err := parse(e)
			return runstate.DueAt(org, run, runstate.DueTasks(e.due.DueSK), now.Add(again)), err
		},
	}
	for shard := range runstate.DueShards {
		src.partitions = append(src.partitions, runstate.DuePartition(shard))
	}
	return src
}

// timed returns the source of a kind of timed work.
func timed(kind due.Kind, now, brought time.Time) *source {
	// The entry must come up again by whichever clock is behind: the time of a
	// tick may be years away, and gone with the next tick.
	next := now.Add(again)
	if !kind.TakesNow {
		brought = time.Time{}
	} else if !brought.IsZero() {
		if brought.Before(now) {
			next = brought.Add(again)
		}
		now = brought
	}
	src := &source{
		name: kind.Name, queue: kind.Queue(), now: now,
		message: func(e entry) (queue.Message, error) { return due.Message(kind, e.key, e.due.DueSK, brought) },
		postponed: func(e entry) (table.DueEntry, error) {
			sk, ok := due.Postponed(e.due.DueSK, next)
			if !ok {
				return table.DueEntry{}, fmt.Errorf("the sort key %q has no time", e.due.DueSK)
			}
			return table.DueEntry{DuePK: e.due.DuePK, DueSK: sk}, nil
		},
	}
	for shard := range due.Shards {
		src.partitions = append(src.partitions, kind.Partition(shard))
	}
	return src
}
