package runstate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

// Node is the item of a task, a map instance or a join. It is made lazily: a
// node that nothing has reached has none, and one that waits for dependencies
// has only their numbers.
type Node struct {
	table.Key
	table.DueEntry               // while it waits for a slot, see package slots
	Status         engine.Status `table:"st,omitempty"`
	Attempt        int           `table:"at,omitempty"`
	OK             []int         `table:"ok,omitempty,set"` // finished dependencies by outcome
	Skipped        []int         `table:"sk_,omitempty,set"`
	TimedOut       []int         `table:"tm,omitempty,set"`
	Failed         []int         `table:"fl,omitempty,set"`
	Nonce          string        `table:"ln,omitempty"` // the lease's owner
	LeaseUntil     clock.Millis  `table:"lu,omitempty"`
	Due            clock.Millis  `table:"q,omitempty"`  // not before this time, while RETRYING, QUEUED or suspended
	Reason         string        `table:"wy,omitempty"` // why it waits, while QUEUED
	Deferred       int           `table:"df,omitempty"` // how often this attempt was deferred before it began
	Announced      bool          `table:"an,omitempty"` // the log has the start of an attempt that was deferred
	Unlogged       bool          `table:"ul,omitempty"` // a runner has begun the attempt, and the log lacks its start
	Handed         string        `table:"hn,omitempty"` // nonce of the runner that the attempt was handed off to, until it begins
	Slot           string        `table:"sl,omitempty"` // of a sandbox that the attempt holds, or held when it ended
	Suspended      bool          `table:"su,omitempty"`
	Lost           int           `table:"lost,omitempty"` // leases lost so far
	Chain          string        `table:"ch,omitempty"`   // the message that propagates from this node
	StartedAt      clock.Millis  `table:"sa,omitempty"`
	EndedAt        clock.Millis  `table:"ea,omitempty"`
	Output         string        `table:"out,omitempty"` // JSON up to MaxInline
	OutputRef      string        `table:"or,omitempty"`  // object key of a larger one
	OutputSize     int64         `table:"ob,omitempty"`
	ErrorType      string        `table:"et,omitempty"`
	Error          string        `table:"em,omitempty"`
	Exception      string        `table:"ex,omitempty"` // class of the exception that the task raised
	Traceback      string        `table:"tb,omitempty"` // at most MaxTraceback bytes
	Carried        *int          `table:"oc,omitempty"` // engine.Outcome if it is not that of the status
	Width          *int          `table:"w,omitempty"`  // of a mapped task, once its list is evaluated
	List           string        `table:"li,omitempty"` // the list, JSON up to MaxInline
	ListRef        string        `table:"lr,omitempty"` // object key of a larger one
	ListHash       string        `table:"lh,omitempty"`
	Reuse          bool          `table:"ru,omitempty"`  // instances of this map are reused as planned
	History        []Attempt     `table:"h,omitempty"`   // previous attempts
	Expires        int64         `table:"ttl,omitempty"` // Unix second; see [Slack]
}

// Attempt is the record of a finished attempt.
type Attempt struct {
	Attempt   int           `table:"a" json:"a"`
	Status    engine.Status `table:"s" json:"s"`
	StartedAt clock.Millis  `table:"b,omitempty" json:"b"`
	EndedAt   clock.Millis  `table:"e,omitempty" json:"e"`
	ErrorType string        `table:"t,omitempty" json:"t"`
	Error     string        `table:"m,omitempty" json:"m"`
	Exception string        `table:"x,omitempty" json:"x,omitempty"`
	Traceback string        `table:"r,omitempty" json:"r,omitempty"`
}

// Attributes of a Node used in updates and conditions.
const (
	NodeStatus    = "st"
	NodeAttempt   = "at"
	NodeOK        = "ok"
	NodeSkipped   = "sk_"
	NodeTimedOut  = "tm"
	NodeFailed    = "fl"
	NodeNonce     = "ln"
	NodeLease     = "lu"
	NodeDue       = "q"
	NodeReason    = "wy"
	NodeDeferred  = "df"
	NodeAnnounced = "an"
	NodeUnlogged  = "ul"
	NodeHanded    = "hn"
	NodeSlot      = "sl"
	NodeSuspended = "su"
	NodeLost      = "lost"
	NodeChain     = "ch"
	NodeStarted   = "sa"
	NodeEnded     = "ea"
	NodeOutput    = "out"
	NodeOutputRef = "or"
	NodeOutSize   = "ob"
	NodeErrorType = "et"
	NodeError     = "em"
	NodeException = "ex"
	NodeTraceback = "tb"
	NodeCarried   = "oc"
	NodeWidth     = "w"
	NodeList      = "li"
	NodeListRef   = "lr"
	NodeListHash  = "lh"
	NodeReuse     = "ru"
	NodeHistory   = "h"
)

// SetOf returns the name of the set that records an outcome.
func SetOf(o engine.Outcome) string {
	switch o {
	case engine.OutcomeOK:
		return NodeOK
	case engine.OutcomeSkipped:
		return NodeSkipped
	case engine.OutcomeTimedOut:
		return NodeTimedOut
	}
	return NodeFailed
}

// Sets counts the recorded dependencies.
func (n *Node) Sets() engine.Sets {
	return engine.Sets{OK: len(n.OK), Skipped: len(n.Skipped), TimedOut: len(n.TimedOut), Failed: len(n.Failed)}
}

// Noted reports whether a dependency is recorded.
func (n *Node) Noted(dep engine.Node) bool {
	for _, set := range [][]int{n.OK, n.Skipped, n.TimedOut, n.Failed} {
		for _, m := range set {
			if m == int(dep) {
				return true
			}
		}
	}
	return false
}

// Outcome returns the outcome of the finished node for its dependents.
func (n *Node) Outcome() engine.Outcome {
	if n.Carried != nil {
		return engine.Outcome(*n.Carried)
	}
	return n.Status.Outcome()
}

// Number returns the node's number in the plan.
func (n *Node) Number() engine.Node { return NodeNumber(n.SK) }

// Input is the input of a run, frozen at acceptance. It never contains secret
// values.
type Input struct {
	Parameters  map[string]json.RawMessage `json:"parameters"`
	Vars        map[string]string          `json:"vars,omitempty"`
	LogicalDate string                     `json:"logical_date,omitempty"`
	Reuse       *Reuse                     `json:"reuse,omitempty"`
	Trace       string                     `json:"traceparent,omitempty"` // W3C Trace Context of the request that created the run
}

// Size estimates the input's memory in bytes.
func (in *Input) Size() int {
	const entry = 64 // of a map or a list, besides its text
	n := len(in.LogicalDate) + len(in.Trace)
	for name, value := range in.Parameters {
		n += entry + len(name) + len(value)
	}
	for name, value := range in.Vars {
		n += entry + len(name) + len(value)
	}
	if in.Reuse == nil {
		return n
	}
	n += 8 * len(in.Reuse.Tasks)
	for _, instances := range in.Reuse.Instances {
		n += entry + 8*len(instances)
	}
	for _, name := range in.Reuse.Names {
		n += entry + len(name)
	}
	n += entry * len(in.Reuse.Places)
	return n
}

// Reuse is the plan of a retry from failed tasks.
type Reuse struct {
	Run       string           `json:"run"`       // the run whose results are reused
	Tasks     []int            `json:"tasks"`     // indexes of whole tasks
	Instances map[string][]int `json:"instances"` // by task index: instances
	Names     []string         `json:"names"`     // names of the tasks that succeeded
	// Places are the places of nodes in Run, by task index, if their numbers
	// differ from those in the new run because Run has another version of the
	// flow.
	Places map[string]Place `json:"places,omitempty"`
}

// Place is the place of a task's nodes in the source run.
type Place struct {
	Task  engine.Node `json:"task"`
	First engine.Node `json:"first,omitempty"` // a mapped task's first instance
}

// Place returns the place of a task's nodes in the source, given that in the
// new run.
func (r *Reuse) Place(own Place) Place {
	if at, ok := r.Places[strconv.Itoa(int(own.Task))]; ok { //guard:reuse/places false
		return at
	}
	return own
}

// InputItem stores an Input: its JSON, or the key of the object with it.
type InputItem struct {
	table.Key
	Data string `table:"data,omitempty"`
	Ref  string `table:"ref,omitempty"`
	// Expires is a Unix second; see [Slack].
	Expires int64 `table:"ttl,omitempty"`
}

// Result is the result of a run that succeeded: JSON up to MaxInline, an object
// if it is larger, or the reason why it has no value. It is written before the
// run changes to SUCCEEDED, and only if the flow has a result.
type Result struct {
	table.Key
	Output     string `table:"out,omitempty"`
	OutputRef  string `table:"or,omitempty"` // object key
	OutputSize int64  `table:"ob,omitempty"`
	Error      string `table:"em,omitempty"`
	Expires    int64  `table:"ttl,omitempty"` // Unix second; see [Slack]
}

// TaskRunID returns the id of one attempt of one node of a run.
func TaskRunID(run string, n engine.Node, attempt int) string {
	return fmt.Sprintf("%s-%d-%d", run, n, attempt)
}

// Has reports whether a task is reused as a whole.
func (r *Reuse) Has(task int) bool {
	_, found := slices.BinarySearch(r.Tasks, task)
	return found
}

// Instance reports whether an instance of a mapped task is reused.
func (r *Reuse) Instance(task, index int) bool {
	_, found := slices.BinarySearch(r.Instances[strconv.Itoa(task)], index)
	return found
}
