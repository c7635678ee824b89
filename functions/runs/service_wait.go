package runs

import (
	"context"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/run/runstate"
)

// Times of a request that waits for its run.
const (
	waitMost  = 14*time.Minute + 30*time.Second // within the function's time-out
	lookFirst = 20 * time.Millisecond           // intervals of reading the run, in case another process signals its end
	lookMost  = time.Second
)

// await returns the detail of a run after its end, or when it has taken too
// long.
func (s *service) await(ctx context.Context, id string) (*RunDetail, error) {
	org := tenant.From(ctx).OrgID
	woken, stop := s.hub.Wait(runstate.RunSignal(id))
	defer stop()
	over := time.NewTimer(waitMost)
	defer over.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	for pause := lookFirst; ; pause = min(pause*3/2, lookMost) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			return s.get(ctx, &runPath{RunID: id})
		case <-woken:
		case <-look.C:
		}
		run, err := runstate.GetRun(ctx, s.table, org, id, s.clock.Now())
		if err != nil && ctx.Err() == nil {
			s.log.Warn("look at a run that is waited for", "run", id, "error", err)
		}
		if err == nil && run.Status.RunEnded() {
			return s.detail(ctx, &run)
		}
		look.Reset(pause)
	}
}
