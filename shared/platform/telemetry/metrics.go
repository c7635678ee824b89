package telemetry

import (
	"cmp"
	"io"
	"slices"
	"sync"
	"time"
)

// Metric identifies a metric.
type Metric uint8

// The metrics, with their dimensions.
const (
	// Requests counts HTTP requests, queue messages and ticks: by Function.
	Requests Metric = iota
	// Errors counts failed requests, messages and ticks: by Function and Code.
	Errors
	// Duration is how long requests, messages and ticks took: by Function.
	Duration
	// RunsAccepted counts accepted runs: by Tier.
	RunsAccepted
	// RunsFinished counts finished runs: by Tier and Outcome.
	RunsFinished
	// TasksFinished counts finished tasks and map instances: by Tier and Outcome.
	TasksFinished
	// LeasesLost counts attempts whose worker stopped renewing its lease: by Tier.
	LeasesLost
	// SandboxLost counts runners of the sandbox that ended without a result, or
	// that could not begin: by Tier.
	SandboxLost
	// QueueDelay is how long a message was visible before a worker received it.
	// Only first deliveries count: by Tier.
	QueueDelay
	// StartDelay is the time from a run's acceptance to its start: by Tier.
	StartDelay
	// ReadUnits and WriteUnits are the units consumed of the table and its
	// indexes: by Function.
	ReadUnits
	WriteUnits
	// TickLag is the age of the most overdue entry of a tick: by Function.
	TickLag
	// TickFailures counts the entries and shards that a tick could not read or hand
	// out: by Function.
	TickFailures
	// ObjectsLost counts reads of objects that are missing or damaged: by Code,
	// "missing" or "damaged".
	ObjectsLost
	// SyntheticRuns counts synthetic runs, and SyntheticDuration is how long they
	// took from the request on: by Outcome.
	SyntheticRuns
	SyntheticDuration

	metrics = int(SyntheticDuration) + 1
)

// The CloudWatch units in use.
const (
	count        = "Count"
	milliseconds = "Milliseconds"
)

// described defines how the metrics are shown.
var described = [metrics]struct {
	name, unit string
	each       bool   // values are written one by one, not as a sum
	total      string // name of the total, in Prometheus style
}{
	Requests:      {"Requests", count, false, "requests_total"},
	Errors:        {"Errors", count, false, "errors_total"},
	Duration:      {"Duration", milliseconds, true, "duration_seconds"},
	RunsAccepted:  {"RunsAccepted", count, false, "runs_accepted_total"},
	RunsFinished:  {"RunsFinished", count, false, "runs_finished_total"},
	TasksFinished: {"TasksFinished", count, false, "tasks_finished_total"},
	LeasesLost:    {"LeasesLost", count, false, "leases_lost_total"},
	SandboxLost:   {"SandboxLost", count, false, "sandbox_lost_total"},
	QueueDelay:    {"QueueDelay", milliseconds, true, "queue_delay_seconds"},
	StartDelay:    {"StartDelay", milliseconds, true, "start_delay_seconds"},
	ReadUnits:     {"ReadUnits", count, false, "read_units_total"},
	WriteUnits:    {"WriteUnits", count, false, "write_units_total"},
	TickLag:       {"TickLag", milliseconds, true, "tick_lag_seconds"},
	TickFailures:  {"TickFailures", count, false, "tick_failures_total"},
	ObjectsLost:   {"ObjectsLost", count, false, "objects_lost_total"},

	SyntheticRuns:     {"SyntheticRuns", count, false, "synthetic_runs_total"},
	SyntheticDuration: {"SyntheticDuration", milliseconds, true, "synthetic_duration_seconds"},
}

// String returns the metric's name in CloudWatch.
func (m Metric) String() string {
	if int(m) >= metrics {
		return "unknown"
	}
	return described[m].name
}

// Dimensions distinguish series of a metric. Empty ones do not apply. Each has
// few values, never workspaces or runs, because CloudWatch charges for every
// combination.
type Dimensions struct {
	Function string
	Tier     string
	Outcome  string // a status, e.g. "SUCCEEDED"
	Code     string // of an error, e.g. "not_found"
}

// pairs returns the dimensions that are set, by name.
func (d Dimensions) pairs() [][2]string {
	all := [][2]string{{"Function", d.Function}, {"Tier", d.Tier}, {"Outcome", d.Outcome}, {"Code", d.Code}}
	return slices.DeleteFunc(all, func(p [2]string) bool { return p[1] == "" })
}

func (d Dimensions) compare(o Dimensions) int {
	return cmp.Or(cmp.Compare(d.Function, o.Function), cmp.Compare(d.Tier, o.Tier),
		cmp.Compare(d.Outcome, o.Outcome), cmp.Compare(d.Code, o.Code))
}

// Metrics collects measurements. A nil Metrics discards them. It is safe for
// concurrent use.
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

// sample holds the measurements of a series since the last flush.
type sample struct {
	count  int
	sum    float64
	values []float64 // single values, if they are to be flushed
}

// NewMetrics returns a Metrics that writes its measurements to w on each Flush,
// in CloudWatch's embedded metric format under a namespace.
func NewMetrics(namespace string, w io.Writer) *Metrics {
	return &Metrics{namespace: namespace, out: w, series: map[series]*sample{}}
}

// NewTotals returns a Metrics that keeps totals, for WriteTotals.
func NewTotals() *Metrics { return &Metrics{series: map[series]*sample{}} }

// Count adds one.
func (m *Metrics) Count(metric Metric, d Dimensions) { m.Add(metric, d, 1) }

// Time adds a duration.
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

// Call counts a request, message or tick that a function handled. code is that
// of its error, "" without one.
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

// Milliseconds returns a duration as metrics and logs show it: in milliseconds,
// to the microsecond.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
