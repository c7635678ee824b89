package localtest

import (
	"sync/atomic"
	"time"

	"millrace/shared/platform/clock"
)

// Clock is the system clock (a synctest bubble's inside one) with an offset set
// by a test. Timers do not follow the offset: a waiting goroutine checks the
// clock when it next wakes.
type Clock struct{ offset atomic.Int64 }

// Now returns the current time in UTC.
func (c *Clock) Now() time.Time {
	return clock.System{}.Now().Add(time.Duration(c.offset.Load()))
}

// Advance moves the clock forward.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// Set sets the clock, which then runs on.
func (c *Clock) Set(now time.Time) { c.offset.Store(int64(now.Sub(clock.System{}.Now()))) }
