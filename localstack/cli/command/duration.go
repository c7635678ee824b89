package command

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

const day = 24 * time.Hour

// ParseDuration parses a duration as [time.ParseDuration] does, and days of 24 hours
// before the other units: 7d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	rest, days := text, time.Duration(0)
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(before, 10, 63)
		if err != nil || n > uint64(math.MaxInt64/day) {
			return 0, notDuration(text)
		}
		if rest, days = after, time.Duration(n)*day; rest == "" { //nolint:gosec // it was compared
			return days, nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || days > 0 && (d < 0 || d > math.MaxInt64-days) {
		return 0, notDuration(text)
	}
	return days + d, nil
}

func notDuration(text string) error {
	return fmt.Errorf("%q is no duration such as 90s, 90m, 12h or 7d", text)
}

// FormatDuration is the shortest text that [ParseDuration] parses as d.
func FormatDuration(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	for _, zero := range []string{"0s", "0m"} {
		if before, ok := strings.CutSuffix(text, zero); ok && before != "" && strings.ContainsAny(before[len(before)-1:], "hm") {
			text = before
		}
	}
	return text
}

// DurationVar defines a flag of a duration with days; its default is the value of to.
func DurationVar(f *pflag.FlagSet, to *time.Duration, name, usage string) {
	f.Var((*duration)(to), name, usage)
}

type duration time.Duration

// Set implements [pflag.Value].
func (d *duration) Set(text string) error {
	parsed, err := ParseDuration(text)
	if err == nil {
		*d = duration(parsed)
	}
	return err
}

// String implements [pflag.Value].
func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return FormatDuration(time.Duration(*d))
}

// Type implements [pflag.Value].
func (d *duration) Type() string { return "duration" }
