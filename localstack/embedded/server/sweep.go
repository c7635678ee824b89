package server

import (
	"context"
	"log/slog"
	"time"
)

// sweepEvery is how often expired items are removed. Whoever reads them
// compares their expiry, so this only keeps the file small.
const sweepEvery = time.Hour

// sweep calls remove, of what, at once and every hour until the function it returns is
// called, which waits for a call that is under way.
func sweep(what string, remove func(context.Context) (int, error), log *slog.Logger) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			if n, err := remove(ctx); err != nil && ctx.Err() == nil {
				log.Error("expired "+what+" not removed", "error", err)
			} else if n > 0 {
				log.Info("expired "+what+" removed", "count", n)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() error {
		cancel()
		<-done
		return nil
	}
}
