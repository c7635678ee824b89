// Package clock is the source of time. Everything that decides by time takes a
// [Clock], so that tests own it and no rule reads the wall by itself.
package clock

import "time"

// Clock tells the time.
type Clock interface {
	// Now returns the current time in UTC.
	Now() time.Time
}

// System is the machine's clock. Inside a testing/synctest bubble it is the
// bubble's fake clock.
type System struct{}

// Now returns the current time in UTC.
func (System) Now() time.Time { return time.Now().UTC() }

// Func makes a Clock of a function.
type Func func() time.Time

// Now calls the function.
func (f Func) Now() time.Time { return f().UTC() }

// Layout is how the service writes timestamps: RFC 3339, UTC, milliseconds.
const Layout = "2006-01-02T15:04:05.000Z"

// Format writes t in [Layout]; the zero time gives the empty string.
func Format(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(Layout)
}

// Millis is a point in time as Unix milliseconds, the form stored in items.
type Millis int64

// ToMillis converts t; the zero time gives 0.
func ToMillis(t time.Time) Millis {
	if t.IsZero() {
		return 0
	}
	return Millis(t.UnixMilli())
}

// Time converts back; 0 gives the zero time.
func (m Millis) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(m)).UTC()
}

// String writes the point in [Layout], the empty string for 0.
func (m Millis) String() string { return Format(m.Time()) }

// MarshalJSON writes the point in [Layout], null for 0.
func (m Millis) MarshalJSON() ([]byte, error) {
	if m == 0 {
		return []byte("null"), nil
	}
	return []byte(`"` + m.String() + `"`), nil
}

// UnmarshalJSON reads what MarshalJSON writes, and any RFC 3339 timestamp.
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
