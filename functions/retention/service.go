package retention

import (
	"context"
	"strings"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
)

const (
	maxPages = 50                  // pages of objects that one sweep reads of a folder
	bodyKept = 15 * 24 * time.Hour // longer than a queue keeps a message
)

// service removes objects.
type service struct {
	table table.Table
	blob  blob.Store
	quota *quota.Quota
	clock clock.Clock
}

// sweepBodies removes the bodies of messages that expired in their queue: the
// others are deleted with their message. It reports whether there may be more.
func (s *service) sweepBodies(ctx context.Context, org string) (more bool, err error) {
	before := s.clock.Now().Add(-bodyKept)
	return s.each(ctx, org+"/"+queue.BodyFolder+"/", func(objects []blob.Object) (old []string, done bool, err error) {
		for _, o := range objects {
			if o.Modified.Before(before) {
				old = append(old, o.Key)
			}
		}
		return old, false, nil
	})
}

// sweepRuns removes the objects of runs that have expired. Keys of objects begin
// with their run's id, and so sort by the time of its creation: only those of
// runs are read that were created before any run that is kept, and of the few
// among them that lived long. It reports whether there may be more.
func (s *service) sweepRuns(ctx context.Context, org string) (more bool, err error) {
	kept, limited := s.quota.Kept(org, quota.RunDays)
	if !limited {
		return false, nil
	}
	// Like the other items of a run, objects outlive the record by the slack.
	now := s.clock.Now().Add(-runstate.Slack)
	prefix := org + "/" + runsFolder + "/"
	return s.each(ctx, prefix, func(objects []blob.Object) (old []string, done bool, err error) {
		runs := map[string][]string{}
		for _, o := range objects {
			id, _, _ := strings.Cut(strings.TrimPrefix(o.Key, prefix), "/")
			made, ok := ids.Time(id)
			if ok && !made.Before(now.Add(-kept)) {
				done = true
				break
			}
			if ok {
				runs[id] = append(runs[id], o.Key)
			}
		}
		stored, err := s.stored(ctx, org, runs)
		if err != nil {
			return nil, false, err
		}
		for id, keys := range runs {
			//guard:retention/live-objects false
			if run, is := stored[id]; is && !run.Expired(now) {
				continue
			}
			old = append(old, keys...)
		}
		return old, done, nil
	})
}

// stored returns the records of runs that are stored.
func (s *service) stored(ctx context.Context, org string, runs map[string][]string) (map[string]runstate.Run, error) {
	keys := make([]table.Key, 0, len(runs))
	for id := range runs {
		keys = append(keys, runstate.RunKey(org, id))
	}
	out := map[string]runstate.Run{}
	for len(keys) > 0 {
		n := min(len(keys), table.MaxBatchGet)
		items, err := s.table.BatchGet(ctx, keys[:n], table.Consistent, table.Only("id", runstate.RunStatus, table.TTLAttribute))
		if err != nil {
			return nil, err
		}
		records, err := table.Decode[runstate.Run](items)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			out[r.ID] = r
		}
		keys = keys[n:]
	}
	return out, nil
}

// each lists the objects with a prefix and removes those that choose returns,
// until it is done or maxPages are read; then there may be more.
func (s *service) each(ctx context.Context, prefix string, choose func([]blob.Object) (old []string, done bool, err error)) (more bool, err error) {
	after := ""
	for range maxPages {
		objects, next, err := s.blob.List(ctx, prefix, after, blob.MaxPageSize)
		if err != nil {
			return false, err
		}
		old, done, err := choose(objects)
		if err != nil {
			return false, err
		}
		if len(old) > 0 {
			if err := s.blob.Delete(ctx, old...); err != nil {
				return false, err
			}
		}
		if done || next == "" {
			return false, nil
		}
		after = next
	}
	return true, nil
}
