package server

import (
	"context"
	"log/slog"
	"time"
)

// sweepEvery is how often expired items are removed. Readers check expiry
// themselves, so this only limits the size of the store.
const sweepEvery = time.Hour

// sweep calls remove at once and every hour until the returned function is
// called, which waits for a call in progress. what names the removed things in
// the log.
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
