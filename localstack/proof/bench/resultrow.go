package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
)

const (
	resultRow    = "submit to result, one task, polled each ms"
	resultMedian = time.Millisecond
)

// results times one-task runs on an idle server from before the request that
// submits one until the end of the GET that shows its end. The client polls
// at once, and then each millisecond. rest is the pause before each run.
func results(ctx context.Context, b *bench, rest time.Duration) error {
	return b.with(ctx, func(s *server) error {
		f := chain(1)
		if err := s.register(ctx, f); err != nil {
			return err
		}
		body, err := json.Marshal(f.run())
		if err != nil {
			return err
		}
		var times samples
		const warm, n = 30, 200
		for i := range warm + n {
			if err := clock.Sleep(ctx, rest); err != nil {
				return err
			}
			took, err := s.result(ctx, body)
			if err != nil {
				return err
			}
			if i >= warm {
				times = append(times, took)
			}
		}
		b.show(timed(rested(resultRow, rest), times).in(span(resultMedian), times.median() <= resultMedian))
		return nil
	})
}

// result submits a run and polls it until it has ended.
func (s *server) result(ctx context.Context, body []byte) (time.Duration, error) {
	begin := time.Now()
	answer, _, err := s.call(ctx, http.MethodPost, "/runs", body)
	for polls := 0; err == nil; polls++ {
		var run struct {
			ID     string        `json:"run_id"`
			Status engine.Status `json:"status"`
		}
		if err = json.Unmarshal(answer, &run); err != nil {
			break
		}
		if run.Status.RunEnded() {
			if run.Status != engine.Succeeded {
				return 0, fmt.Errorf("run %s ended as %s", run.ID, run.Status)
			}
			return time.Since(begin), nil
		}
		if polls > 0 {
			err = clock.Sleep(ctx, time.Millisecond)
		}
		if err == nil {
			answer, _, err = s.call(ctx, http.MethodGet, "/runs/"+run.ID, nil)
		}
	}
	return 0, err
}
