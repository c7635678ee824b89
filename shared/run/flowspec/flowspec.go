// Package flowspec holds registered flows: the format of a flow_spec, its
// validation, and [Flow], the immutable form that runs are planned from. It
// does no I/O and reads no clock.
package flowspec

import (
	"encoding/json"
	"math"
	"time"
)

// The bounds of a flow_spec.
const (
	MaxTasks       = 10_000
	MaxBytes       = 4 << 20 // canonical JSON
	MaxRetries     = 100
	MaxFlowTimeout = 366 * 24 * 60 * 60 // seconds
	maxBackoff     = 24 * 60 * 60       // seconds
	maxFaults      = 1_000              // reported at once
	maxTaskName    = 64                 // bytes
)

// The defaults of a task.
const (
	DefaultTimeoutSecs = 600
	DefaultRule        = AllSuccess
)

// The trigger rules.
const (
	AllSuccess = "all_success"
	AllDone    = "all_done"
	OneFailed  = "one_failed"
	NoneFailed = "none_failed"
)

// Spec is a flow_spec as it was registered, with its defaults filled in.
type Spec struct {
	Parameters  json.RawMessage `json:"parameters,omitempty"`   // JSON Schema 2020-12 of the run's parameters
	TimeoutSecs int             `json:"timeout_secs,omitempty"` // of a whole run; 0 for none
	Tasks       []Task          `json:"tasks"`
	OnFailure   *Task           `json:"on_failure,omitempty"` // runs when a run has failed
}

// Task is one task of a flow.
type Task struct {
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Entrypoint   string          `json:"entrypoint,omitempty"` // module:function
	Description  string          `json:"description,omitempty"`
	DependsOn    []string        `json:"depends_on,omitempty"`
	Retries      int             `json:"retries,omitempty"` // attempts after the first
	RetryBackoff *Backoff        `json:"retry_backoff,omitempty"`
	TimeoutSecs  int             `json:"timeout_secs,omitempty"` // of one attempt
	TriggerRule  string          `json:"trigger_rule,omitempty"`
	Condition    string          `json:"condition,omitempty"` // expression: false skips the task
	MapOver      string          `json:"map_over,omitempty"`  // expression: one instance per element of the list
	Config       json.RawMessage `json:"config,omitempty"`    // object of the task's type, with ${{ … }} in strings

	lazy *lazyTask
}

// Backoff is the delay between attempts: DelaySecs before the first retry, each
// further one Factor times as long, at most MaxSecs.
type Backoff struct {
	DelaySecs float64 `json:"delay_secs"`
	Factor    float64 `json:"factor"`
	MaxSecs   float64 `json:"max_secs"`
}

// DefaultBackoff is one second, doubling, at most five minutes.
var DefaultBackoff = Backoff{DelaySecs: 1, Factor: 2, MaxSecs: 300}

// UnmarshalJSON fills in the defaults of absent fields.
func (b *Backoff) UnmarshalJSON(raw []byte) error {
	type plain Backoff
	p := plain(DefaultBackoff)
	if err := json.Unmarshal(raw, &p); err != nil {
		return err
	}
	*b = Backoff(p)
	return nil
}

// RetryDelay is the time to wait before retry n, from 1.
func (t *Task) RetryDelay(n int) time.Duration {
	b := DefaultBackoff
	if t.RetryBackoff != nil {
		b = *t.RetryBackoff
	}
	secs := min(b.DelaySecs*math.Pow(b.Factor, float64(max(n, 1)-1)), b.MaxSecs)
	return time.Duration(secs * float64(time.Second))
}
