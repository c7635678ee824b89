package bench

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// row is a line of the table.
type row struct {
	name          string
	median, p95   string
	p99, worst    string
	write, read   float64 // units; 0: not counted
	requests      float64 // to queues; 0: not counted
	bytes         int64   // written to disk; 0: not measured
	budget        string
	met, hasScore bool // met reports whether the budget is met, if hasScore is set
}

// in adds the row's budget.
func (r row) in(budget string, met bool) row {
	r.budget, r.met, r.hasScore = budget, met, true
	return r
}

// of adds the counts of the row's work, including that of accepting the run if
// given.
func (r row) of(counts ...*Count) row {
	for _, c := range counts {
		if c != nil {
			r.write, r.read, r.requests = r.write+c.Write, r.read+c.Read, r.requests+float64(c.Requests)
		}
	}
	return r
}

// printer prints rows as they are measured.
type printer struct {
	out  io.Writer
	rows int
}

const layout = "%-52s %10s %10s %10s %10s %9s %9s %9s %9s  %-42s %s\n"

func (p *printer) print(r row) {
	if p.rows++; p.rows == 1 {
		fmt.Fprintf(p.out, layout, "", "median", "p95", "p99", "worst", "write u.", "read u.", "queue r.", "written", "budget", "")
	}
	score := ""
	switch {
	case r.hasScore && r.met:
		score = "met"
	case r.hasScore:
		score = "NOT MET"
	}
	fmt.Fprintf(p.out, layout, r.name, r.median, r.p95, r.p99, r.worst, units(r.write), units(r.read), units(r.requests), size(r.bytes), r.budget, score)
}

// units formats a count, "" for none.
func units(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(int64(v*1000+0.5))/1000, 'f', -1, 64)
}

// size formats bytes, "" for none.
func size(n int64) string {
	switch {
	case n <= 0:
		return ""
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// span formats a duration with three digits.
func span(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", d.Seconds()*1e3)
	}
	if d >= 100*time.Microsecond {
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.1f µs", d.Seconds()*1e6)
}

// samples are the durations of one work.
type samples []time.Duration

// at returns quantiles of the samples.
func (s samples) at(shares ...float64) []time.Duration {
	sorted, out := slices.Sorted(slices.Values(s)), make([]time.Duration, len(shares))
	for i, q := range shares {
		if n := len(sorted); n > 0 {
			out[i] = sorted[min(int(q*float64(n)), n-1)]
		}
	}
	return out
}

func (s samples) median() time.Duration { return s.at(0.5)[0] }

// timed returns a row of durations.
func timed(name string, s samples) row {
	at := s.at(0.5, 0.95, 0.99, 1)
	return row{name: name, median: span(at[0]), p95: span(at[1]), p99: span(at[2]), worst: span(at[3])}
}
