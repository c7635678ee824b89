package telemetry

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"time"
)

// Metric is something that is measured.
type Metric uint8

// The metrics, each with its dimensions.
const (
	// Requests counts HTTP requests, queue messages and ticks: by Function.
	Requests Metric = iota
	// Errors counts those that failed: by Function and Code.
	Errors
	// Duration is how long they took: by Function.
	Duration
	// RunsAccepted counts runs: by Tier.
	RunsAccepted
	// RunsFinished counts runs that are over: by Tier and Outcome.
	RunsFinished
	// TasksFinished counts tasks and map instances that are over: by Tier and
	// Outcome.
	TasksFinished
	// LeasesLost counts attempts that were taken from a worker that had gone
	// silent: by Tier.
	LeasesLost
	// QueueDelay is how long a message waited for a worker, from when it could be
	// taken, if it was taken at its first delivery: by Tier.
	QueueDelay
	// StartDelay is the time from a run's acceptance to its start: by Tier.
	StartDelay
	// ReadUnits and WriteUnits are what was consumed of the table and its
	// indexes: by Function.
	ReadUnits
	WriteUnits
	// TickLag is how long what was most overdue at a tick had been: by Function.
	TickLag
	// ObjectsLost counts reads of objects that are missing or damaged in the object
	// store: by Code, "missing" or "damaged".
	ObjectsLost

	metrics = int(ObjectsLost) + 1
)

// The units of CloudWatch that are in use.
const (
	count        = "Count"
	milliseconds = "Milliseconds"
)

// described says how the metrics are shown.
var described = [metrics]struct {
	name, unit string
	each       bool   // values are told one by one, not as a sum
	total      string // the name of the total, in Prometheus' style
}{
	Requests:      {"Requests", count, false, "requests_total"},
	Errors:        {"Errors", count, false, "errors_total"},
	Duration:      {"Duration", milliseconds, true, "duration_seconds"},
	RunsAccepted:  {"RunsAccepted", count, false, "runs_accepted_total"},
	RunsFinished:  {"RunsFinished", count, false, "runs_finished_total"},
	TasksFinished: {"TasksFinished", count, false, "tasks_finished_total"},
	LeasesLost:    {"LeasesLost", count, false, "leases_lost_total"},
	QueueDelay:    {"QueueDelay", milliseconds, true, "queue_delay_seconds"},
	StartDelay:    {"StartDelay", milliseconds, true, "start_delay_seconds"},
	ReadUnits:     {"ReadUnits", count, false, "read_units_total"},
	WriteUnits:    {"WriteUnits", count, false, "write_units_total"},
	TickLag:       {"TickLag", milliseconds, true, "tick_lag_seconds"},
	ObjectsLost:   {"ObjectsLost", count, false, "objects_lost_total"},
}

// String is the metric's name in CloudWatch.
func (m Metric) String() string {
	if int(m) >= metrics {
		return "unknown"
	}
	return described[m].name
}

// Dimensions are what a metric is told apart by; what is empty is none. Each
// takes few values: CloudWatch charges for every combination, so workspaces and
// runs are never among them.
type Dimensions struct {
	Function string
	Tier     string
	Outcome  string // a status, e.g. "SUCCEEDED"
	Code     string // of an error, e.g. "not_found"
}

// pairs are the dimensions that are set, by name.
func (d Dimensions) pairs() [][2]string {
	all := [][2]string{{"Function", d.Function}, {"Tier", d.Tier}, {"Outcome", d.Outcome}, {"Code", d.Code}}
	return slices.DeleteFunc(all, func(p [2]string) bool { return p[1] == "" })
}

func (d Dimensions) compare(o Dimensions) int {
	return cmp.Or(cmp.Compare(d.Function, o.Function), cmp.Compare(d.Tier, o.Tier),
		cmp.Compare(d.Outcome, o.Outcome), cmp.Compare(d.Code, o.Code))
}

// Metrics adds up what is measured. A nil Metrics measures nothing. It is safe
// for concurrent use.
type Metrics struct {
	namespace string
	out       io.Writer // nil: nothing is flushed, and totals grow

	mu     sync.Mutex
	series map[series]*sample
}

type series struct {
	dimensions Dimensions
	metric     Metric
}

// sample is what was measured of a series since the last flush.
type sample struct {
	count  int
	sum    float64
	values []float64 // one by one, if they are to be flushed
}

// NewMetrics makes a Metrics that writes what was measured to w, in CloudWatch's
// embedded metric format under a namespace, each time it is flushed.
func NewMetrics(namespace string, w io.Writer) *Metrics {
	return &Metrics{namespace: namespace, out: w, series: map[series]*sample{}}
}

// NewTotals makes a Metrics that keeps totals, for WriteTotals.
func NewTotals() *Metrics { return &Metrics{series: map[series]*sample{}} }

// Count counts one.
func (m *Metrics) Count(metric Metric, d Dimensions) { m.Add(metric, d, 1) }

// Time adds a time.
func (m *Metrics) Time(metric Metric, d Dimensions, t time.Duration) {
	m.Add(metric, d, Milliseconds(t))
}

// Add adds a value.
func (m *Metrics) Add(metric Metric, d Dimensions, value float64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(series{d, metric}, value)
}

// Call counts a request, message or tick that a function dealt with. code is
// the error's, "" without one.
func (m *Metrics) Call(function string, took time.Duration, code string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	d := Dimensions{Function: function}
	m.add(series{d, Requests}, 1)
	m.add(series{d, Duration}, Milliseconds(took))
	if code != "" {
		d.Code = code
		m.add(series{d, Errors}, 1)
	}
}

func (m *Metrics) add(key series, value float64) {
	s := m.series[key]
	if s == nil {
		s = &sample{}
		m.series[key] = s
	}
	s.count++
	s.sum += value
	if m.out != nil && described[key.metric].each {
		s.values = append(s.values, value)
	}
}

// Milliseconds is a time as metrics and logs show it: in milliseconds, to the
// microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
