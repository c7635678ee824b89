package localtest

import (
	"sync/atomic"
	"time"

	"millrace/shared/platform/clock"
)

// Clock is the machine's clock (a synctest bubble's inside one), moved by what
// a test says. Timers do not notice the move: what waits for a moment looks at
// the clock when it next wakes.
type Clock struct{ offset atomic.Int64 }

// Now returns the current time in UTC.
func (c *Clock) Now() time.Time {
	return clock.System{}.Now().Add(time.Duration(c.offset.Load()))
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// Set moves the clock to a moment, from which it runs on.
func (c *Clock) Set(now time.Time) { c.offset.Store(int64(now.Sub(clock.System{}.Now()))) }
