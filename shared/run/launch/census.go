package launch

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"millrace/shared/account/quota"
	"millrace/shared/platform/table"
	"millrace/shared/run/runstate"
	"millrace/shared/run/usage"
)

// admit counts a run towards the limits of its workspace. If it is not accepted
// in the end, its share is released at the next count.
func (l *Launcher) admit(ctx context.Context, run *runstate.Run) error {
	if err := (usage.Meter{Table: l.Table, Blob: l.Blob, Clock: l.Clock}).Admit(ctx, l.Quota, run.Org); err != nil {
		return err
	}
	if err := l.Quota.Rate(ctx, quota.Runs, run.Org); err != nil {
		return err
	}
	runs := func(ctx context.Context) (int64, error) {
		live, err := l.Counter.count(ctx, l.Table, run.Org)
		return live.runs, err
	}
	tasks := func(ctx context.Context) (int64, error) {
		live, err := l.Counter.count(ctx, l.Table, run.Org)
		return live.tasks, err
	}
	if err := l.Quota.Take(ctx, quota.UnfinishedRuns, run.Org, 1, runs); err != nil {
		return err
	}
	return l.Quota.Take(ctx, quota.QueuedTasks, run.Org, int64(run.Tasks), tasks)
}

// RunCounter counts the live runs of all workspaces by the due index, which
// contains every run until its end is completely processed. It is read seldom:
// after as many runs were accepted as there was room for. The zero value is
// ready for use.
type RunCounter struct {
	began atomic.Int64 // number of counts so far, including a running one

	mu   sync.Mutex
	done int64 // number of completed counts
	live map[string]unfinished
}

// unfinished is the number of a workspace's runs and tasks that have not ended.
type unfinished struct{ runs, tasks int64 }

// count returns what a workspace has unfinished. Concurrent callers share the next
// count.
func (c *RunCounter) count(ctx context.Context, t table.Table, org string) (unfinished, error) {
	if c == nil {
		c = &RunCounter{}
	}
	asked := c.began.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done <= asked {
		began := c.began.Add(1)
		live, err := countLive(ctx, t)
		if err != nil {
			return unfinished{}, err
		}
		c.done, c.live = began, live
	}
	return c.live[org], nil
}

func countLive(ctx context.Context, t table.Table) (map[string]unfinished, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(4)
	var mu sync.Mutex
	live := map[string]unfinished{}
	for shard := range runstate.DueShards {
		group.Go(func() error {
			found := map[string]unfinished{}
			for item, err := range table.All(ctx, t, table.Query{Index: table.Due, PK: runstate.DuePartition(shard)}) {
				if err != nil {
					return fmt.Errorf("count live runs: %w", err)
				}
				org, _, ok := runstate.ParseRunKey(item.Key().PK)
				if !ok {
					continue
				}
				place, _ := item.Entry(table.Due)
				n := found[org]
				n.runs++
				n.tasks += int64(runstate.DueTasks(place.SK))
				found[org] = n
			}
			mu.Lock()
			defer mu.Unlock()
			for org, n := range found {
				sum := live[org]
				sum.runs, sum.tasks = sum.runs+n.runs, sum.tasks+n.tasks
				live[org] = sum
			}
			return nil
		})
	}
	return live, group.Wait()
}
