package faults

import (
	"math/rand/v2"
	"time"
)

// Play lets the requests pass one by one, in an order drawn from rng, until
// done is closed. settled returns when everything but the waiting requests is
// blocked, like testing/synctest.Wait. Sometimes, and whenever no request
// waits, up to most of the clock's time passes.
func (s *Steps) Play(rng *rand.Rand, settled func(), most time.Duration, done <-chan struct{}) {
	anyone := func(string) bool { return true }
	for {
		settled()
		select {
		case <-done:
			return
		default:
		}
		if n := len(s.Waiting(anyone)); n > 0 && rng.IntN(8) > 0 {
			s.Pass(rng.IntN(n), anyone)
			continue
		}
		time.Sleep(time.Duration(1 + rng.Int64N(int64(most))))
	}
}
