package cron_test

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/kit/cron"
)

func schedule(t require.TestingT, expression, zone string) cron.Schedule {
	loc, err := cron.Zone(zone)
	require.NoError(t, err, zone)
	s, err := cron.Parse(expression, loc)
	require.NoError(t, err, expression)
	return s
}

// next returns the first occurrences after a time, to the minute.
func next(s cron.Schedule, after time.Time, n int) []string {
	var all []string
	for range n {
		after = s.Next(after)
		all = append(all, after.Format("2006-01-02T15:04Z"))
	}
	return all
}

// TestOccurrences compares with those that croner 11.0.1 computed, a JavaScript
// library with parser, rules and database of zones of its own. It was given each
// expression with the hours and minutes written out as lists, which it takes for
// times of the clock (fixedTimeRule "no-wildcard"), and "*" for every hour.
func TestOccurrences(t *testing.T) {
	t.Parallel()
	file, err := os.Open("testdata/occurrences.tsv")
	require.NoError(t, err)
	defer file.Close()
	cases := 0
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		cells := strings.Split(lines.Text(), "\t")
		require.Len(t, cells, 4)
		after, err := time.Parse(time.RFC3339, cells[2])
		require.NoError(t, err)
		want := strings.Fields(cells[3])
		assert.Equal(t, want, next(schedule(t, cells[1], cells[0]), after, len(want)), lines.Text())
		cases++
	}
	assert.Greater(t, cases, 600)
}

// TestChangesOfTheClock has what the other library's zones do not show.
func TestChangesOfTheClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		zone, expression, after string
		want                    []string
	}{
		"a day that was skipped at the date line": {
			"Pacific/Apia", "30 9 * * *", "2011-12-29T00:00:00Z",
			[]string{"2011-12-29T19:30Z", "2011-12-30T10:00Z", "2011-12-30T19:30Z"},
		},
		"several times in one gap": {
			"America/Sao_Paulo", "0,10,20,30,40,50 0 * * *", "2018-11-03T23:00:00Z",
			[]string{"2018-11-04T03:00Z", "2018-11-05T02:00Z", "2018-11-05T02:10Z"},
		},
		"a gap and a time at its end": {
			"Europe/Berlin", "30 2,3 * * *", "2026-03-28T22:00:00Z",
			[]string{"2026-03-29T01:00Z", "2026-03-29T01:30Z", "2026-03-30T00:30Z"},
		},
		"after the first of two times that the clock shows": {
			"Europe/Berlin", "30 2 * * *", "2026-10-25T00:30:00Z",
			[]string{"2026-10-26T01:30Z"},
		},
		"hours that are all named": {
			"Europe/Berlin", "30 0-11,12-23 * * *", "2026-10-24T23:40:00Z",
			[]string{"2026-10-25T00:30Z", "2026-10-25T01:30Z", "2026-10-25T02:30Z"},
		},
		"an offset that changes by half an hour": {
			"Australia/Lord_Howe", "45 * * * *", "2026-04-04T13:50:00Z",
			[]string{"2026-04-04T14:45Z", "2026-04-04T15:15Z", "2026-04-04T16:15Z"},
		},
		"seconds of the time before": {
			"UTC", "* * * * *", "2026-01-01T00:00:59.999Z", []string{"2026-01-01T00:01Z"},
		},
		"a range past midnight": {
			"UTC", "0 22-1 * * *", "2026-01-01T20:00:00Z",
			[]string{"2026-01-01T22:00Z", "2026-01-01T23:00Z", "2026-01-02T00:00Z", "2026-01-02T01:00Z", "2026-01-02T22:00Z"},
		},
		"29 February eight years away": {
			"UTC", "0 0 29 2 *", "2096-03-01T00:00:00Z", []string{"2104-02-29T00:00Z"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			after, err := time.Parse(time.RFC3339, c.after)
			require.NoError(t, err)
			assert.Equal(t, c.want, next(schedule(t, c.expression, c.zone), after, len(c.want)))
		})
	}
}

func TestExpressionsThatAreRejected(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		"":                                      "empty",
		"* * * *":                               "4 fields",
		"0 * * * * *":                           "6 fields",
		"@every 5m":                             "interval",
		"@reboot":                               "unrecognized",
		"TZ=Europe/Berlin * * * * *":            "time zone",
		"60 * * * *":                            "above maximum",
		"* 24 * * *":                            "above maximum",
		"* * 0 * *":                             "below minimum",
		"*/0 * * * *":                           "step",
		"a * * * *":                             "a",
		"H * * * *":                             "hash",
		"* * L * *":                             "day-of-month",
		"* * * * FRI#1":                         "#n",
		"0 0 30 2 *":                            "no day",
		"0 0 31 4,6 *":                          "no day",
		"1,,2 * * * *":                          "empty element",
		", * * * *":                             "empty element",
		strings.Repeat("1,", 200) + "1 * * * *": "256",
	} {
		_, err := cron.Parse(expression, time.UTC)
		assert.ErrorContains(t, err, want, expression)
	}
}

func TestZones(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "UTC", "Asia/Kathmandu", "America/Argentina/Buenos_Aires"} {
		_, err := cron.Zone(name)
		assert.NoError(t, err, name)
	}
	for _, name := range []string{"Local", "Mars/Olympus", "../etc/passwd", "CET+1"} {
		_, err := cron.Zone(name)
		assert.Error(t, err, name)
	}
}

// TestEveryMinuteIsLookedAt compares with a search of all minutes of some days
// for times that the clock shows.
func TestEveryMinuteIsLookedAt(t *testing.T) {
	t.Parallel()
	zones := []string{"America/New_York", "Europe/London", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca", "Asia/Gaza", "Antarctica/Troll"}
	rapid.Check(t, func(t *rapid.T) {
		zone, err := cron.Zone(rapid.SampledFrom(zones).Draw(t, "zone"))
		require.NoError(t, err)
		minutes := rapid.SliceOfNDistinct(rapid.IntRange(0, 59), 1, 4, rapid.ID[int]).Draw(t, "minutes")
		hours := rapid.SliceOfNDistinct(rapid.IntRange(0, 23), 1, 23, rapid.ID[int]).Draw(t, "hours")
		s, err := cron.Parse(list(minutes)+" "+list(hours)+" * * *", zone)
		require.NoError(t, err)
		from := time.Date(2015+rapid.IntRange(0, 20).Draw(t, "year"), 1, rapid.IntRange(1, 366).Draw(t, "day"), 0, 0, 0, 0, time.UTC)

		var want, got []time.Time
		seen := map[string]bool{} // a time that the clock shows again is not another
		shown := func(at time.Time) string { return at.In(zone).Format("2006-01-02 15:04") }
		for at := from.Add(-26 * time.Hour); at.Before(from.AddDate(0, 0, 3)); at = at.Add(time.Minute) {
			due := false
			// The times that the clock went past within this minute, the last one shown.
			before := clock(at.Add(-time.Minute).In(zone))
			for c := before.Add(time.Minute); !c.After(clock(at.In(zone))); c = c.Add(time.Minute) {
				name := c.Format("2006-01-02 15:04")
				due = due || !seen[name] && has(minutes, c.Minute()) && has(hours, c.Hour())
				seen[name] = true
			}
			seen[shown(at)] = true
			if due && at.After(from) {
				want = append(want, at)
			}
		}
		for at := s.Next(from); at.Before(from.AddDate(0, 0, 3)); at = s.Next(at) {
			got = append(got, at)
		}
		require.Equal(t, want, got)
	})
}

func clock(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
}

func has(all []int, n int) bool { return slices.Contains(all, n) }

func list(all []int) string {
	var text []string
	for _, n := range all {
		text = append(text, strconv.Itoa(n))
	}
	return strings.Join(text, ",")
}

// FuzzParse: an expression that is accepted has an occurrence, later than any
// time asked for.
func FuzzParse(f *testing.F) {
	for _, expression := range []string{"*/5 1-3 * * MON", "@weekly", "0 0 29 2 *", "TZ=UTC * * * * *", "1,,2 * * * *", "* * * * 7"} {
		f.Add(expression, int64(1_700_000_000), "America/New_York")
	}
	f.Fuzz(func(t *testing.T, expression string, from int64, zone string) {
		loc, err := cron.Zone(zone)
		if err != nil {
			return
		}
		s, err := cron.Parse(expression, loc)
		if err != nil {
			return
		}
		after := time.Unix(from%4_000_000_000, 0)
		for range 3 {
			at := s.Next(after)
			require.True(t, at.After(after), "%s after %s is %s", expression, after, at)
			after = at
		}
	})
}
