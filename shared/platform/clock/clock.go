// Package clock is the source of time. Code that depends on the time takes a
// [Clock], so that tests control it.
package clock

import (
	"context"
	"time"
)

// Clock returns the time.
type Clock interface {
	// Now returns the current time in UTC.
	Now() time.Time
}

// System is the system clock. Inside a testing/synctest bubble it is the
// bubble's fake clock.
type System struct{}

// Now returns the current time in UTC.
func (System) Now() time.Time { return time.Now().UTC() }

// Func is a function that implements Clock.
type Func func() time.Time

// Now calls the function.
func (f Func) Now() time.Time { return f().UTC() }

// Sleep waits for d, or until ctx ends, and then returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Layout is the format of the service's timestamps: RFC 3339, UTC,
// milliseconds.
const Layout = "2006-01-02T15:04:05.000Z"

// Format formats t in [Layout]. The zero time gives the empty string.
func Format(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(Layout)
}

// Millis is a time in Unix milliseconds, the form stored in items.
type Millis int64

// ToMillis converts t. The zero time gives 0.
func ToMillis(t time.Time) Millis {
	if t.IsZero() {
		return 0
	}
	return Millis(t.UnixMilli())
}

// Time converts m to a time. 0 gives the zero time.
func (m Millis) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// String formats m in [Layout]. 0 gives the empty string.
func (m Millis) String() string { return Format(m.Time()) }

// MarshalJSON formats m in [Layout]. 0 gives null.
func (m Millis) MarshalJSON() ([]byte, error) {
	if m == 0 {
		return []byte("null"), nil
	}
	return []byte(`"` + m.String() + `"`), nil
}

// UnmarshalJSON parses the output of MarshalJSON and any RFC 3339 timestamp.
func (m *Millis) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*m = 0
		return nil
	}
	var t time.Time
	if err := t.UnmarshalJSON(data); err != nil {
		return err
	}
	*m = ToMillis(t)
	return nil
}
