package launch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// Occurrence identifies what a run was started for: an instant of a schedule,
// an interval of a backfill, an event of a sensor. An occurrence makes one run,
// however often it is requested, also concurrently.
type Occurrence struct {
	Kind    string    // Schedule, Backfill or Sensor; also the run's trigger source
	ID      string    // of the schedule, backfill or sensor
	Instant time.Time // of a schedule, to the millisecond, in any zone; also the logical date
	Index   int       // of a backfill: the interval, from 0
	// Event is the id of a sensor's event. Without one every request is an event of
	// its own.
	Event string
	// Within is how long a sensor's event is remembered; 0: longer than the record
	// of its run.
	Within time.Duration
}

// occurrence is the item that claims an occurrence.
type occurrence struct {
	table.Key
	Run     string `table:"run"`           // "": the occurrence is void
	Expires int64  `table:"ttl,omitempty"` // Unix second; 0: never
}

// longestRun is longer than a run lives. What is said of a run by its occurrence
// must not be forgotten before the run's record.
const longestRun = 2 * 365 * 24 * time.Hour

// expires returns when an occurrence that is claimed now is forgotten, in Unix
// seconds; 0: never.
func (o *Occurrence) expires(q *quota.Quota, org string, now time.Time) int64 {
	if o.Within == 0 {
		return q.Expiry(org, quota.RunDays, now.Add(longestRun))
	}
	return now.Add(o.Within).Unix()
}

// free holds while an occurrence is not claimed, or forgotten.
func (l *Launcher) free() table.Cond {
	return table.Or(table.IsNew(), table.Le(table.TTLAttribute, l.Clock.Now().Unix()))
}

const (
	occurrenceTries = 6 // to write while another transaction is in progress
	occurrencePause = 20 * time.Millisecond
)

// part returns the key of an occurrence among those of its schedule, backfill
// or sensor.
func (o *Occurrence) part() (string, error) {
	var part string
	switch {
	case o.Kind == Schedule && !o.Instant.IsZero():
		part = clock.Format(o.Instant)
	case o.Kind == Backfill && o.Index >= 0:
		part = strconv.Itoa(o.Index)
	case o.Kind == Sensor:
		part = o.Event
	}
	if o.ID == "" || part == "" {
		return "", errs.New(errs.Invalid, "There is no occurrence of the kind %q without its id, and its instant, index or event", o.Kind)
	}
	return part, nil
}

// item returns the item that claims the occurrence, without its run, and the
// occurrence's part in the run's audit entry. Names of any length result in
// keys of one length, each in a partition of its own. An event without an id
// has no item.
func (o *Occurrence) item(org string) (*occurrence, map[string]any, error) {
	if o.Kind == Sensor && o.ID != "" && o.Event == "" {
		return nil, map[string]any{"sensor_id": o.ID}, nil
	}
	part, err := o.part()
	if err != nil {
		return nil, nil, err
	}
	names := map[string]string{Schedule: "instant", Backfill: "index", Sensor: "event"}
	key := table.Key{PK: occurrencePartition(org, fmt.Sprintf("%q %q %q", o.Kind, o.ID, part)), SK: "run"}
	return &occurrence{Key: key}, map[string]any{o.Kind + "_id": o.ID, names[o.Kind]: part}, nil
}

func occurrencePartition(org, name string) string {
	return org + "#occurrence#" + digest(name) //guard:tenant/occurrence operand 1 "org"
}

// made returns the run of an occurrence, nil if there is none. A run that has
// not started is sent to the workers again, because its message may have been
// lost.
func (l *Launcher) made(ctx context.Context, org string, o *occurrence) (*runstate.Run, error) {
	known, err := table.Load[occurrence](ctx, l.Table, o.Key, table.Consistent) //guard:accept/occurrence-consistent drop arg 4
	if errors.Is(err, table.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read occurrence: %w", err)
	}
	if known.Expires != 0 && l.Clock.Now().Unix() >= known.Expires {
		return nil, nil
	}
	if known.Run == "" {
		return nil, errVoid
	}
	run, err := runstate.GetRun(ctx, l.Table, org, known.Run, l.Clock.Now())
	if err != nil {
		return nil, err
	}
	if run.Status == engine.Queued { //guard:accept/occurrence-sends false
		l.dispatch(ctx, &run, "")
	}
	return &run, nil
}

// errVoid is returned for an occurrence that makes no run any more.
var errVoid = errs.New(errs.Conflict, "This occurrence was cancelled")

// Void prevents that an occurrence makes a run from now on. If it has made one,
// Void returns that run, which goes on, and true. It may be repeated. Errors:
// table.ErrConflict while the run is being accepted.
func (l *Launcher) Void(ctx context.Context, org string, o Occurrence) (runstate.Run, bool, error) {
	void, _, err := o.item(org)
	if err != nil || void == nil { // a sensor's event without an id is none
		return runstate.Run{}, false, err
	}
	put := table.Put{Item: *void, If: table.IsNew()} //guard:accept/void drop field If
	err = l.Table.Put(ctx, put)
	failed, known := errors.AsType[*table.ConditionError](err)
	if !known {
		return runstate.Run{}, false, err
	}
	if err := table.Unmarshal(failed.Old, void); err != nil || void.Run == "" {
		return runstate.Run{}, false, err
	}
	run, err := runstate.GetRun(ctx, l.Table, org, void.Run, l.Clock.Now())
	return run, err == nil, err
}

// commit writes the transaction that accepts a run. For the run of an
// occurrence it waits for concurrent transactions, and returns the run that one
// of them created for the same occurrence, or nil.
func (l *Launcher) commit(ctx context.Context, p *plan, writes []table.Write) (*runstate.Run, error) {
	err := l.transact(ctx, p, writes)
	if p.occurrence == nil {
		return nil, err
	}
	for try := range occurrenceTries {
		if err == nil || p.gone(err) || !taken(err, len(writes)) && !errors.Is(err, table.ErrConflict) {
			return nil, err
		}
		if run, err := l.made(ctx, p.run.Org, p.occurrence); err != nil || run != nil {
			return run, err
		}
		if clock.Sleep(ctx, occurrencePause<<try) != nil {
			return nil, context.Cause(ctx)
		}
		err = l.transact(ctx, p, writes)
	}
	if errors.Is(err, table.ErrConflict) {
		return nil, errs.Wrap(errs.Conflict, err, "The run of this occurrence is being accepted")
	}
	return nil, err
}

// acceptOccurrence is Accept of a run that stands for something.
func (l *Launcher) acceptOccurrence(ctx context.Context, org string, req Request) (runstate.Run, error) {
	taken, metadata, err := req.Occurrence.item(org)
	if err == nil && req.Key != "" {
		err = errs.New(errs.Invalid, "A run of a %s has no idempotency key", req.Occurrence.Kind)
	}
	if err != nil {
		return runstate.Run{}, err
	}
	if taken != nil {
		if run, err := l.made(ctx, org, taken); err != nil || run != nil {
			return deref(run), err
		}
	}
	req.Trigger = req.Occurrence.Kind
	if req.LogicalDate == "" {
		req.LogicalDate = clock.Format(req.Occurrence.Instant)
	}
	p, err := l.resolve(ctx, org, req)
	if err != nil {
		return runstate.Run{}, err
	}
	if taken != nil {
		taken.Run, taken.Expires = p.run.ID, req.Occurrence.expires(l.Quota, p.run.Org, l.Clock.Now())
	}
	if p.run.By == "" {
		p.run.By = req.Occurrence.Kind + ":" + req.Occurrence.ID
	}
	p.occurrence, p.audit.Metadata = taken, metadata
	return l.write(ctx, p)
}

func deref(r *runstate.Run) runstate.Run {
	if r == nil {
		return runstate.Run{}
	}
	return *r
}
