// Package tasktype is the catalog of task types: the one list from which the
// validation of flows, default_executor, GET /backends, the executors of the
// workers and the README's table follow. A new type is an entry of [All] and its
// executor in function taskworker, which does not start while one is missing.
package tasktype

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"millrace/shared/run/flowspec"
)

// Type is one type of tasks.
type Type struct {
	flowspec.Kind // what registering a flow has to know

	// Sandboxed: its tasks are user code in a process of its own; otherwise the
	// service itself does the work.
	Sandboxed bool
	// Tiered: the runtime tier makes a difference.
	Tiered bool
	// Doc says what a task does, in one sentence.
	Doc string
	// Config describes the fields of config, in Markdown; empty for none.
	Config string
}

// heldTimeoutSecs is the longest that a task may take which holds a worker for as
// long as it runs: it has to fit the invocation of one.
const heldTimeoutSecs = 840

// All returns the types; the first is what default_executor is unless it is named.
func All() []Type { return slices.Clone(all) }

var all = []Type{
	{
		Kind: flowspec.Kind{
			Name: "python", NeedsEntrypoint: true, Secrets: true,
			DefaultTimeoutSecs: flowspec.DefaultTimeoutSecs, MaxTimeoutSecs: heldTimeoutSecs,
		},
		Sandboxed: true, Tiered: true,
		Doc:    "Runs functions of the uploaded artifact.",
		Config: "any; a secret that it refers to can be read by `ctx.secret`",
	},
	{
		Kind: flowspec.Kind{
			Name: "http", NeedsConfig: true, CheckConfig: checkHTTP, Secrets: true,
			DefaultTimeoutSecs: flowspec.DefaultTimeoutSecs, MaxTimeoutSecs: heldTimeoutSecs,
		},
		Doc:    "Makes an HTTP request.",
		Config: "`url`, `method` (GET), `headers`, `json` or `body`, `expected_status` (a status or a list of them; any 2xx)",
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

// Find returns the type of a name, false if there is none.
func Find(name string) (Type, bool) {
	i := slices.IndexFunc(all, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return Type{}, false
	}
	return all[i], true
}

// Names lists the types in the order of [All].
func Names() []string {
	names := make([]string, len(all))
	for i, t := range all {
		names[i] = t.Name
	}
	return names
}

// Kinds returns what flowspec checks flows against. It must not be changed.
var Kinds = sync.OnceValue(func() flowspec.Kinds {
	kinds := make(flowspec.Kinds, len(all))
	for _, t := range all {
		kinds[t.Name] = t.Kind
	}
	return kinds
})

// Markdown writes the types as the table of the README.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| type | what a task does | `config` | secrets in it | `timeout_secs` if left out | at most |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, t := range all {
		secrets := "no"
		if t.Secrets {
			secrets = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", t.Name, t.Doc, t.Config, secrets, seconds(t.DefaultTimeoutSecs), seconds(t.MaxTimeoutSecs))
	}
	return b.String()
}

func seconds(n int) string {
	if n == flowspec.MaxFlowTimeout {
		return "366 days"
	}
	return strconv.Itoa(n)
}
