// Package runstate defines how runs are stored: the keys and items of a run,
// its input, its task nodes and its archive, and its index entries. All data of
// a run is in partitions that begin with the workspace and the run, so a read
// of one workspace cannot reach another's.
package runstate

import (
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
)

// Sizes that keep a run's items and partitions small.
const (
	NodesPerShard = 500      // task items of one partition
	MaxInline     = 32 << 10 // bytes of JSON stored in an item; more goes to the object store
	DueShards     = 16
	MaxMessage    = 2 << 10 // bytes of an error message that are stored
	MaxTraceback  = 4 << 10 // bytes of a traceback that are stored
	MaxTracebacks = 16      // number of earlier attempts whose tracebacks are stored, because the size of an item is limited
)

// The fences, which stop a run.
const (
	FenceCancel   = "cancel"
	FenceDeadline = "deadline"
)

// Run is a run's record and control item. It is small, because every task start
// reads it.
type Run struct {
	table.Key
	table.DueEntry
	table.ListEntries
	Org          string        `table:"org"`
	ID           string        `table:"id"`
	Slug         string        `table:"slug"`
	Flow         string        `table:"flow"`
	Version      string        `table:"ver"`
	SpecHash     string        `table:"spec"`
	Plan         int           `table:"pv,omitempty"`   // version of its plan, as for [engine.PlanOf]
	Artifact     string        `table:"art,omitempty"`  // object key of the code
	CodeHash     string        `table:"code,omitempty"` // identifies the code's content
	Deployment   string        `table:"dep,omitempty"`
	Environment  string        `table:"env"`
	Mode         string        `table:"mode"`         // tier
	ModeGiven    bool          `table:"mg,omitempty"` // Mode was set by the request, and takes precedence over a task's
	Trigger      string        `table:"trig"`
	By           string        `table:"by,omitempty"` // user or key that triggered it
	Status       engine.Status `table:"st"`
	CreatedAt    clock.Millis  `table:"ca"`
	StartedAt    clock.Millis  `table:"sa,omitempty"`
	EndedAt      clock.Millis  `table:"ea,omitempty"`
	Fence        string        `table:"fe,omitempty"`
	FenceBy      string        `table:"fb,omitempty"`
	FenceAt      clock.Millis  `table:"fa,omitempty"`
	Tasks        int           `table:"n,omitempty"`  // of its flow, as encoded in its due entry
	Timeout      int           `table:"to,omitempty"` // seconds from start to deadline
	Deadline     clock.Millis  `table:"dl,omitempty"`
	Error        string        `table:"err,omitempty"`
	Worst        *int          `table:"wo,omitempty"` // engine.Outcome at END, while on_failure runs
	Parent       string        `table:"par,omitempty"`
	Partial      bool          `table:"part,omitempty"`
	Reused       int           `table:"reu,omitempty"`
	Archived     bool          `table:"arc,omitempty"`
	ReconciledAt clock.Millis  `table:"lk,omitempty"`  // when it was last reconciled
	ProbedAt     clock.Millis  `table:"pb,omitempty"`  // when a reconciliation last repeated messages
	Final        Final         `table:"fin,omitempty"` // of a stopped run that has ended
	KeptAt       clock.Millis  `table:"kp,omitempty"`  // when the expiry of a long run's items was last moved
	Expires      int64         `table:"ttl,omitempty"` // Unix second; 0: never, as of a run that is not archived
}

// Attributes of a Run used in updates and conditions.
const (
	RunStatus     = "st"
	RunStarted    = "sa"
	RunEnded      = "ea"
	RunFence      = "fe"
	RunFenceBy    = "fb"
	RunFenceAt    = "fa"
	RunDeadline   = "dl"
	RunError      = "err"
	RunWorst      = "wo"
	RunArchived   = "arc"
	RunReconciled = "lk"
	RunProbed     = "pb"
	RunFinal      = "fin"
	RunKept       = "kp"
	DuePK         = "due_pk"
	DueSK         = "due_sk"
)

// Fenced returns why the run must not start more tasks at now, "" if it may.
func (r *Run) Fenced(now time.Time) string {
	switch {
	case r.Fence != "":
		return r.Fence
	case r.Status == engine.CancellationRequested || r.Status == engine.Cancelled: //guard:fence/status false
		return FenceCancel
	case r.Deadline != 0 && now.UnixMilli() >= int64(r.Deadline): //guard:deadline/time false
		return FenceDeadline
	case r.Status.RunEnded(): //guard:fence/ended false
		return "ended"
	}
	return ""
}

// TierOf returns the tier of a task, given its own, "" if it has none.
func (r *Run) TierOf(task string) string {
	if task == "" || r.ModeGiven {
		return r.Mode
	}
	return task
}

// RunKey returns the key of a run's record.
func RunKey(org, run string) table.Key { return table.Key{PK: partition(org, run), SK: "run"} }

// InputKey returns the key of a run's input.
func InputKey(org, run string) table.Key { return table.Key{PK: partition(org, run), SK: "input"} }

// ResultKey returns the key of a run's result.
func ResultKey(org, run string) table.Key {
	return table.Key{PK: partition(org, run), SK: "result"}
}

// ArchiveKey returns the key of a run's log archive.
func ArchiveKey(org, run string) table.Key {
	return table.Key{PK: partition(org, run), SK: "archive"}
}

// LogShards is the largest number of partitions of a run's live log.
const LogShards = 4

// LogPartition returns the first partition of a run's live log, where every
// writer begins.
func LogPartition(org, run string) string { return partition(org, run) + "#log" }

// LogPartitions returns all partitions that a run's live log may have, the
// first one first.
func LogPartitions(org, run string) []string {
	all := make([]string, LogShards)
	for shard := range all {
		all[shard] = LogPartition(org, run)
		if shard > 0 {
			all[shard] = partition(org, run) + "#" + strconv.Itoa(shard) + "#log"
		}
	}
	return all
}

func partition(org, run string) string { return org + "#run#" + run } //guard:tenant/run operand 1 "org"

// NodeKey returns the key of a task node.
func NodeKey(org, run string, n engine.Node) table.Key {
	return table.Key{PK: NodePartition(org, run, int(n)/NodesPerShard), SK: fmt.Sprintf("%09d", int(n))}
}

// NodePartition returns the partition of a shard of a run's task nodes.
func NodePartition(org, run string, shard int) string {
	return partition(org, run) + "#t" + strconv.Itoa(shard)
}

// NodeNumber returns the number of a node by its sort key.
func NodeNumber(sk string) engine.Node {
	n, _ := strconv.Atoi(strings.TrimLeft(sk, "0"))
	return engine.Node(n)
}

// Object returns the key of an object that belongs to a run.
func Object(org, run, name string) string { return org + "/runs/" + run + "/" + name } //guard:tenant/objects operand 1 "org"

// OutputKey returns the key of the output of one attempt of one node, if it is
// too large for the item. The attempt's files are stored next to it.
func OutputKey(org, run string, n engine.Node, attempt int) string {
	return Object(org, run, fmt.Sprintf("out/%d-%d.json", n, attempt))
}

// DueAt returns a run's entry in the due index. It contains the number of tasks
// in the run's flow, so that unfinished tasks can be counted from the index
// alone.
func DueAt(org, run string, tasks int, at time.Time) table.DueEntry {
	h := fnv.New32a()
	_, _ = h.Write([]byte(run))
	return table.DueEntry{
		DuePK: DuePartition(int(h.Sum32() % DueShards)),
		DueSK: fmt.Sprintf("%013d#%s#%d", at.UnixMilli(), partition(org, run), tasks), //guard:tenant/due arg 3.1 ""
	}
}

// DueTasks returns the number of tasks in the sort key of a due entry, 1 if it
// has none.
func DueTasks(sk string) int {
	n, err := strconv.Atoi(sk[strings.LastIndexByte(sk, '#')+1:])
	if err != nil {
		return 1
	}
	return n
}

// DuePartition returns a shard of the due index.
func DuePartition(shard int) string { return "due#" + strconv.Itoa(shard) }

// ParseRunKey returns workspace and run of the partition of a run's record.
func ParseRunKey(pk string) (org, run string, ok bool) {
	org, run, ok = strings.Cut(pk, "#run#")
	return org, run, ok && !strings.Contains(run, "#")
}

// Lists returns a run's entries in the list indexes: by workspace, flow,
// environment, and flow with environment, each sorted by run id, and therefore
// by time.
func Lists(org, flow, env, run string) table.ListEntries {
	return table.ListEntries{
		L1PK: ListPartition(org, "", ""), L1SK: run,
		L2PK: ListPartition(org, flow, ""), L2SK: run,
		L3PK: ListPartition(org, "", env), L3SK: run,
		L4PK: ListPartition(org, flow, env), L4SK: run,
	}
}

// ListPartition returns the list of a workspace's runs, limited to a flow and
// an environment if they are given.
func ListPartition(org, flow, env string) string {
	return org + "#runs#" + flow + "#" + env //guard:tenant/lists operand 1 "org"
}

// ListIndex returns the index that contains [ListPartition].
func ListIndex(flow, env string) table.Index {
	switch {
	case flow != "" && env != "":
		return table.ByBoth
	case flow != "":
		return table.ByFlow
	case env != "":
		return table.ByEnv
	}
	return table.ByList
}

// Duration returns how long the run took in milliseconds; 0 if it has not ended
// or never started.
func (r *Run) Duration() int64 {
	if r.StartedAt == 0 || r.EndedAt == 0 {
		return 0
	}
	return int64(r.EndedAt - r.StartedAt)
}

// FenceSignal returns the name of the in-process signal that a run was fenced.
func FenceSignal(run string) string { return "fence/" + run }

// RunSignal returns the name of the in-process signal that a run has ended.
func RunSignal(run string) string { return "run/" + run }
