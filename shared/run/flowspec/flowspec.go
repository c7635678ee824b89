// Package flowspec defines registered flows: the format of a flow_spec, its
// validation, and [Flow], the immutable form from which runs are planned. It
// does no I/O and does not use the clock.
package flowspec

import (
	"encoding/json"
	"math"
	"time"
)

// Limits of a flow_spec.
const (
	MaxTasks       = 10_000
	MaxBytes       = 4 << 20 // canonical JSON
	MaxRetries     = 100
	MaxFlowTimeout = 366 * 24 * 60 * 60 // seconds
	maxBackoff     = 24 * 60 * 60       // seconds
	maxFaults      = 1_000              // reported at most
	maxTaskName    = 64                 // bytes
)

// Defaults of a task.
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

// Spec is a registered flow_spec, with its defaults filled in.
type Spec struct {
	Parameters  json.RawMessage `json:"parameters,omitempty" doc:"JSON Schema 2020-12 of a run's parameters: they are checked against it, and its defaults apply"`
	TimeoutSecs int             `json:"timeout_secs,omitempty" minimum:"1" maximum:"31622400" doc:"Of a whole run, which ends TIMED_OUT past it; absent: none"`
	Tasks       []Task          `json:"tasks" minItems:"1" maxItems:"10000" doc:"The graph"`
	OnFailure   *Task           `json:"on_failure,omitempty" doc:"A task that runs when a run has failed, before the run ends; without depends_on, map_over, trigger_rule and condition"`
	Result      json.RawMessage `json:"result,omitempty" doc:"What a run that succeeded results in: an expression, or any JSON with ${{ … }} in its strings. It may read every task"`
}

// SchemaName is the name of the schema in the API's description.
func (Spec) SchemaName() string { return "FlowSpec" }

// Task is one task of a flow. An expression is CEL: it sees params, run, vars, and
// tasks.<name>.output and .status of the tasks before it.
type Task struct {
	Name         string          `json:"name" pattern:"^[A-Za-z][A-Za-z0-9_-]{0,63}$" doc:"Unique in the flow"`
	Type         string          `json:"type" doc:"What runs it: python, http, transform or wait"`
	Entrypoint   string          `json:"entrypoint,omitempty" doc:"Of a python task: module:function in the artifact"`
	Description  string          `json:"description,omitempty"`
	DependsOn    []string        `json:"depends_on,omitempty" doc:"Names of the tasks that come before it"`
	Retries      int             `json:"retries,omitempty" minimum:"0" maximum:"100" default:"0" doc:"Attempts after the first"`
	RetryBackoff *Backoff        `json:"retry_backoff,omitempty" doc:"The time between attempts"`
	TimeoutSecs  int             `json:"timeout_secs,omitempty" minimum:"1" maximum:"31622400" doc:"Of one attempt; 600 if absent. GET /backends tells the limit of each type"`
	TriggerRule  string          `json:"trigger_rule,omitempty" enum:"all_success,all_done,one_failed,none_failed" default:"all_success" doc:"When it runs, once all its dependencies have ended"`
	Condition    string          `json:"condition,omitempty" doc:"Expression: false skips the task"`
	MapOver      string          `json:"map_over,omitempty" doc:"Expression, a list: the task runs once for each element, which config and inputs see as item and index; its output is the list of theirs"`
	Config       json.RawMessage `json:"config,omitempty" doc:"Object of the task's type, with ${{ … }} in its strings; secrets.<name> may stand there and nowhere else"`
	Inputs       json.RawMessage `json:"inputs,omitempty" doc:"Of a python task: object of the function's arguments, any JSON with ${{ … }} in its strings. Given, nothing else but ctx, item and index is filled in by name"`
	Tier         string          `json:"tier,omitempty" enum:"nano,micro,small,medium,large,xlarge" doc:"The runtime tier it runs in, unless the run's request names one; absent: the run's"`

	lazy *lazyTask
}

// SchemaName is the name of the schema in the API's description.
func (Task) SchemaName() string { return "FlowTask" }

// Backoff is the delay between attempts: DelaySecs before the first retry, then
// Factor times the previous delay, at most MaxSecs.
type Backoff struct {
	DelaySecs float64 `json:"delay_secs" required:"false" minimum:"0" maximum:"86400" default:"1" doc:"Before the first retry"`
	Factor    float64 `json:"factor" required:"false" minimum:"1" maximum:"100" default:"2" doc:"How many times as long each further delay is"`
	MaxSecs   float64 `json:"max_secs" required:"false" minimum:"0" maximum:"86400" default:"300" doc:"The longest delay"`
}

// SchemaName is the name of the schema in the API's description.
func (Backoff) SchemaName() string { return "RetryBackoff" }

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

// RetryDelay returns the delay before retry n, from 1.
func (t *Task) RetryDelay(n int) time.Duration {
	b := DefaultBackoff
	if t.RetryBackoff != nil {
		b = *t.RetryBackoff
	}
	secs := min(b.DelaySecs*math.Pow(b.Factor, float64(max(n, 1)-1)), b.MaxSecs)
	return time.Duration(secs * float64(time.Second))
}
