// Package expr implements the expressions of flows: CEL programs, and JSON
// templates with ${{ … }} inside strings. An expression is checked when a flow
// is registered, and evaluated with a bounded amount of work; it reads only its
// [Scope].
package expr

import (
	"fmt"

	"millrace/shared/platform/budget"
)

// Limits of one expression and of one evaluation.
const (
	MaxSource   = 16 << 10  // bytes of one expression's source
	maxSteps    = 5_000_000 // steps taken and values created by one evaluation, about a second
	maxBytes    = 128 << 20 // allocated by one evaluation
	maxString   = 16 << 20  // bytes of a string created by replace, join or json.encode
	maxDepth    = 200       // nesting of a value
	maxMacros   = 24        // map, filter, exists … in one expression: the type checker is cubic in their chain
	maxChecking = 250_000   // steps of the type checker, for lists and objects as well
)

// evaluation is the budget of one expression, or of all in one template.
var evaluation = budget.Limits{Steps: maxSteps, Bytes: maxBytes}

// Scope is the input of an evaluation. Values are plain JSON as returned by
// [Decode]; they are only read and may be shared between evaluations.
type Scope struct {
	Params map[string]any      // the run's parameters
	Run    map[string]any      // run_id, flow_name, flow_version, environment, logical_date
	Vars   map[string]any      // environment variables as they were when the run was accepted
	Tasks  map[string]TaskView // tasks that have finished, by name
	Item   *Item               // the element of a mapped task's instance, nil otherwise
	Failed *Failed             // the failed tasks of the run, for its on_failure task, nil otherwise
}

// TaskView is an expression's view of one task.
type TaskView struct {
	Output any    // plain JSON; a list of instance outputs for a mapped task
	Status string // the task's terminal state, e.g. SUCCEEDED
}

// Item is an element of a mapped list: item and index in an expression.
type Item struct {
	Value any
	Index int
}

// Failed is the variables failed and failed_count of an expression.
type Failed struct {
	List  []any // the first of them, as objects
	Count int   // number of all
}

// SyntaxError is the reason why an expression does not compile.
type SyntaxError struct {
	Line, Column int    // from 1; zero if the whole expression is meant
	Msg          string // one sentence without the position
}

// Error returns the sentence with its position.
func (e *SyntaxError) Error() string {
	switch {
	case e.Line == 0:
		return e.Msg
	case e.Line == 1:
		return fmt.Sprintf("column %d: %s", e.Column, e.Msg)
	default:
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
	}
}

// EvalError is the reason why an evaluation failed. Its text may be shown to
// the flow's owner.
type EvalError struct{ Msg string }

// Error returns the sentence.
func (e *EvalError) Error() string { return e.Msg }

func evalErrorf(format string, args ...any) error {
	return &EvalError{Msg: fmt.Sprintf(format, args...)}
}
