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
)

// Type is a type of tasks.
type Type struct {
	flowspec.Kind // the part needed for registering a flow

	// Sandboxed means that its tasks run user code in a separate process;
	// otherwise the service itself does the work.
	Sandboxed bool
	// Tiered means that the runtime tier makes a difference.
	Tiered bool
	// Doc describes in one sentence what a task does.
	Doc string
	// Config describes the fields of config, in Markdown; "" for none.
	Config string
}

// heldTimeoutSecs is the largest time-out of a task that holds a worker while
// it runs: it must fit into one invocation.
const heldTimeoutSecs = 840

// All returns the types. The first is the default of default_executor.
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

// Kinds returns the kinds against which flowspec checks flows. Callers must not
// modify it.
var Kinds = sync.OnceValue(func() flowspec.Kinds {
	kinds := make(flowspec.Kinds, len(all))
	for _, t := range all {
		kinds[t.Name] = t.Kind
	}
	return kinds
})

// Markdown returns the types as the table in the README.
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
