package backfills

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/shared/account/setting"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

const (
	// mostBegun is how many intervals one step begins, so that concurrent steps
	// have few of each other's runs to look up.
	mostBegun = 10
	// mostSettled is how many intervals one step ends by their runs. With those
	// that it begins and the job they fit into a transaction.
	mostSettled = 50
	// advanceTime is how long one call makes steps; then a message goes on.
	advanceTime = 8 * time.Second
	// maxReason is about the bytes of a reason, of which an answer has up to 10,000.
	maxReason = 300
)

// advance makes the steps of a job that can be made now. ended is a run that is
// known to have ended; with "" all active intervals are looked at. It may be
// repeated and called concurrently.
func (s *service) advance(ctx context.Context, id, ended string) error {
	on, err := setting.Backfills(ctx, s.jobs.Table, tenant.From(ctx).OrgID)
	if err != nil {
		return err
	}
	began, st := s.clock.Now(), &step{service: s, ended: ended, dispatches: on}
	for {
		err := record.Retry(ctx, "backfill '"+id+"'", func() error { return st.make(ctx, id) })
		if err != nil || !st.more {
			return err
		}
		if s.clock.Now().Sub(began) > advanceTime {
			s.kick(ctx, &st.job)
			return nil
		}
	}
}

// step is one change of a job.
type step struct {
	*service
	ended      string // a run to be looked at; "": all of them
	dispatches bool   // runs are made

	job    Job
	plan   *plan // nil until it is needed
	done   []settled
	wait   bool  // a run was refused for now; the next look asks again
	failed error // what kept a run from being made
	change bool
	more   bool // another step can be made
}

// make reads the job, and changes it unless something else does meanwhile.
// Errors: table.ErrConditionFailed and table.ErrConflict in that case.
func (st *step) make(ctx context.Context, id string) error {
	st.done, st.wait, st.failed, st.change, st.more = nil, false, nil, false, false
	job, exists, err := st.jobs.Find(ctx, id)
	if err != nil || !exists || job.ended() {
		return err
	}
	st.job = job
	st.job.Active = slices.Clone(job.Active)
	if err := st.settle(ctx); err != nil {
		return err
	}
	if err := st.dispatch(ctx); err != nil {
		return err
	}
	st.begin()
	if st.change {
		if err := st.write(ctx, &job); err != nil {
			return err
		}
	}
	return st.failed
}

// settle ends the intervals whose runs have ended.
func (st *step) settle(ctx context.Context) error {
	var keys []table.Key
	org := tenant.From(ctx).OrgID
	for _, a := range st.job.Active {
		if a.Run != "" && (st.ended == "" || st.ended == a.Run) {
			keys = append(keys, runstate.RunKey(org, a.Run))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	items, err := st.jobs.Table.BatchGet(ctx, keys, table.Consistent, table.Only("id", runstate.RunStatus, runstate.RunError))
	if err != nil {
		return fmt.Errorf("read runs of a backfill: %w", err)
	}
	runs, err := table.Decode[runstate.Run](items)
	if err != nil {
		return err
	}
	for i := range runs {
		at := slices.IndexFunc(st.job.Active, func(a active) bool { return a.Run == runs[i].ID })
		if at < 0 || !runs[i].Status.RunEnded() {
			continue
		}
		if st.finish(ctx, at, statusOf(runs[i].Status), runs[i].Error); len(st.done) == mostSettled { //guard:backfill/reason arg 3 ""
			st.more = true
			break
		}
	}
	return nil
}

// statusOf is the status of the interval of an ended run.
func statusOf(s engine.Status) string {
	switch s {
	case engine.Succeeded:
		return succeeded
	case engine.Cancelled:
		return cancelled
	}
	return failed
}

// finish ends the active interval at a place of the list. reason is why it failed.
func (st *step) finish(ctx context.Context, at int, status, reason string) {
	a := st.job.Active[at]
	st.job.Active = slices.Delete(st.job.Active, at, at+1)
	switch status {
	case succeeded:
		st.job.Completed++
	case failed:
		st.job.Failed++
	}
	if reason = runstate.Shorten(reason, maxReason); status != failed {
		reason = "" // a cancelled run says who cancelled it
	}
	st.done = append(st.done, settled{Key: settledKey(ctx, st.job.BackfillID, a.Index), Status: status, Run: a.Run, Reason: reason})
	st.change = true
}

// dispatch has the runs made of the intervals that were begun; of a cancelled
// job, it prevents those that are not made.
func (st *step) dispatch(ctx context.Context) error {
	org := tenant.From(ctx).OrgID
	for _, a := range slices.Clone(st.job.Active) {
		if a.Run != "" {
			continue
		}
		if st.job.Status == running && !st.dispatches {
			return nil
		}
		if st.plan == nil {
			p, err := st.loadPlan(ctx, st.job.BackfillID)
			if err != nil {
				return err
			}
			st.plan = p
		}
		at := slices.IndexFunc(st.job.Active, func(b active) bool { return b.Index == a.Index })
		req := st.job.request(st.plan, a.Index)
		var run runstate.Run
		var err error
		if st.job.Status == running {
			run, err = st.launcher.Accept(ctx, org, req)
		} else {
			var made bool
			if run, made, err = st.launcher.Void(ctx, org, *req.Occurrence); err == nil && !made {
				st.finish(ctx, at, cancelled, "")
				continue
			}
		}
		switch {
		case err == nil:
			st.job.Active[at].Run, st.change = run.ID, true
			st.job.Dispatched++
			if run.Status.RunEnded() {
				st.finish(ctx, at, statusOf(run.Status), run.Error)
			}
		case !st.refused(ctx, at, err):
			return nil
		}
	}
	return nil
}

// refused notes why the run of an interval was not made. It returns false if
// none can be made now.
func (st *step) refused(ctx context.Context, at int, err error) bool {
	switch code := errs.CodeOf(err); {
	case errors.Is(err, table.ErrConflict): // something else is making it
	case code == errs.TooMany:
		st.wait = true
		return false
	case code == errs.Invalid, code == errs.NotFound, code == errs.Unprocessable, code == errs.Conflict:
		st.finish(ctx, at, failed, errs.Text(err))
		return true
	}
	st.failed = err // what was done before is written
	return false
}

// begin enters the next intervals as active, and ends a job that has none.
func (st *step) begin() {
	j := &st.job
	for range mostBegun {
		if j.Status != running || !st.dispatches || st.wait || st.failed != nil || j.Next == j.Total || len(j.Active) >= j.MaxConcurrency {
			break
		}
		j.Active = append(j.Active, active{Index: j.Next})
		j.Next++
		st.change, st.more = true, true
	}
	if j.Status == running && j.Next == j.Total && len(j.Active) == 0 {
		j.Status, st.change = completed, true
	}
}

// write stores the job and the intervals that ended, if the job is still as it
// was read.
func (st *step) write(ctx context.Context, was *Job) error {
	now := st.clock.Now()
	st.job.Revision, st.job.UpdatedAt = table.V(ids.New(now)), clock.ToMillis(now)
	if st.job.ended() {
		st.job.Entry = Due.Entry(st.job.Key, time.Time{})
	}
	put := table.Put{Item: st.job, If: table.Eq("revision", was.Revision)} //guard:backfill/step drop field If
	writes := []table.Write{put}
	for _, one := range st.done {
		writes = append(writes, table.Put{Item: one})
	}
	if len(writes) == 1 {
		return st.jobs.Table.Put(ctx, put)
	}
	return st.jobs.Table.Transact(ctx, writes...)
}
