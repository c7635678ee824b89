// Package tasktype is the catalog of task types, from which the validation of
// flows, default_executor, GET /backends, the executors of the workers and the
// README's table are derived. A new type is an entry of [All] and an executor
// in function taskworker, which does not start while one is missing.
package tasktype

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"millrace/shared/run/flowspec"
	"millrace/shared/run/tier"
)

// Type is a type of tasks.
type Type struct {
	flowspec.Kind // the part needed for registering a flow

	// Sandboxed means that its tasks run user code in a separate process;
	// otherwise the service itself does the work.
	Sandboxed bool
	// OccupiesWorker means that a task occupies a worker while it runs. The deployment
	// limits how long that may be.
	OccupiesWorker bool
	// Tiered means that the runtime tier makes a difference.
	Tiered bool
	// Doc describes in one sentence what a task does.
	Doc string
	// Config describes the fields of config, in Markdown; "" for none.
	Config string
}

// Limits of the timeout of tasks that occupy a worker while they run.
const (
	// HeldSecs is the limit if a worker is an invocation, which includes the
	// import of the task's module.
	HeldSecs = 840
	// ResidentSecs is the limit if workers are long-lived, as in the embedded
	// server.
	ResidentSecs = 24 * 60 * 60
)

// All returns the types. The first is the default of default_executor.
func All() []Type { return slices.Clone(all) }

// Within returns the types of a deployment in which a task may occupy a worker
// for held seconds, 0 for [HeldSecs].
func Within(held int) []Type {
	types := All()
	for i := range types {
		if types[i].OccupiesWorker && held > 0 {
			types[i].MaxTimeoutSecs = held
		}
	}
	return types
}

var all = []Type{
	{
		Kind: flowspec.Kind{
			Name: "python", NeedsEntrypoint: true, Secrets: true,
			DefaultTimeoutSecs: flowspec.DefaultTimeoutSecs, MaxTimeoutSecs: HeldSecs,
		},
		Sandboxed: true, OccupiesWorker: true, Tiered: true,
		Doc:    "Runs functions of the uploaded artifact.",
		Config: "any; a secret that it refers to can be read by `ctx.secret`",
	},
	{
		Kind: flowspec.Kind{
			Name: "http", NeedsConfig: true, CheckConfig: checkHTTP, Secrets: true,
			DefaultTimeoutSecs: flowspec.DefaultTimeoutSecs, MaxTimeoutSecs: HeldSecs,
		},
		OccupiesWorker: true,
		Doc:            "Makes an HTTP request.",
		Config:         "`url`, `method` (GET), `headers`, `json` or `body`, `expected_status` (a status or a list of them; any 2xx)",
	},
	{
		Kind: flowspec.Kind{
			Name: "transform", NeedsConfig: true, Expressions: []string{"expression"}, CheckConfig: checkTransform,
			DefaultTimeoutSecs: flowspec.DefaultTimeoutSecs, MaxTimeoutSecs: flowspec.MaxFlowTimeout,
		},
		Doc:    "Evaluates a CEL expression.",
		Config: "`expression`, without `${{ }}`",
	},
	{
		Kind: flowspec.Kind{
			Name: "wait", NeedsConfig: true, CheckConfig: checkWait,
			DefaultTimeoutSecs: flowspec.MaxFlowTimeout, MaxTimeoutSecs: flowspec.MaxFlowTimeout,
		},
		Doc:    "Waits without holding a worker.",
		Config: "`seconds`, up to 366 days",
	},
}

// Find returns the type with a name. ok is false if there is none.
func Find(name string) (Type, bool) {
	i := slices.IndexFunc(all, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return Type{}, false
	}
	return all[i], true
}

// Names returns the names of the types in the order of [All].
func Names() []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return names
}

// Kinds returns the kinds that flowspec checks flows against, for [HeldSecs].
// It must not be changed.
var Kinds = sync.OnceValue(func() flowspec.Kinds { return KindsWithin(0, nil) })

// KindsWithin is like [Kinds] for a deployment with a limit, see [Within], and
// with these runtime tiers.
func KindsWithin(held int, tiers tier.Set) flowspec.Kinds {
	kinds := make(flowspec.Kinds, len(all))
	for _, t := range Within(held) {
		if t.Tiered {
			t.Tiers = tiers
		}
		kinds[t.Name] = t.Kind
	}
	return kinds
}

// Markdown returns the types as the table in the README.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| type | what a task does | `config` | secrets in it | `timeout_secs` if left out | at most |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, t := range all {
		secrets := "no"
		if t.Secrets {
			secrets = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", t.Name, t.Doc, t.Config, secrets, seconds(t.DefaultTimeoutSecs), most(t))
	}
	return b.String()
}

func most(t Type) string {
	if t.OccupiesWorker {
		return fmt.Sprintf("%d on AWS, %d on the embedded server", HeldSecs, ResidentSecs)
	}
	return seconds(t.MaxTimeoutSecs)
}

func seconds(n int) string {
	if n == flowspec.MaxFlowTimeout {
		return "366 days"
	}
	return strconv.Itoa(n)
}
