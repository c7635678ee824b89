package execution

import (
	"strings"

	"millrace/shared/account/tenant"
	"millrace/shared/run/tasktype"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// Backend is an executor of tasks.
type Backend struct {
	Name           string          `json:"name" doc:"Name, as used in default_executor"`
	Kind           string          `json:"kind" enum:"sandbox,builtin" doc:"sandbox: user code in a separate process; builtin: executed by the service itself"`
	TaskTypes      []string        `json:"task_types" doc:"The task types it executes"`
	Available      bool            `json:"available" doc:"Whether tasks of these types can run now in this deployment"`
	Message        string          `json:"message" doc:"What it does, or why it is not available"`
	ExecutionModes []ExecutionMode `json:"execution_modes" doc:"The runtime tiers, smallest first; empty if the tier makes no difference"`
	Isolation      *Isolation      `json:"isolation" doc:"How tasks are isolated from the service and from each other; null if no user code runs"`
	Runtime        *Runtime        `json:"runtime" doc:"What user code runs on, for which packages that it brings have to be made; null where none runs"`
	DefaultTimeout *int            `json:"default_timeout_secs" doc:"Default of timeout_secs; null: no time-out by default"`
	MaxTimeout     *int            `json:"max_timeout_secs" doc:"Largest timeout_secs; null: no limit"`
}

// Isolation describes how user code is isolated.
type Isolation struct {
	Level  string `json:"level" enum:"environment,namespaces,processes" doc:"environment: a separate machine for each workspace; namespaces: processes that cannot see the service or each other; processes: no isolation between workspaces, only for trusted code"`
	Detail string `json:"detail"`
}

// Runtime is the platform that user code runs on.
type Runtime struct {
	Platform string `json:"platform" doc:"Operating system and machine: linux/arm64, linux/amd64, darwin/arm64 or darwin/amd64"`
	Python   string `json:"python_version" doc:"3.13 for instance"`
}

// ExecutionMode is a runtime tier.
type ExecutionMode struct {
	Name     string `json:"name" enum:"nano,micro,small,medium,large,xlarge"`
	MemoryMB int    `json:"memory_mb" doc:"Memory of one task"`
	Default  bool   `json:"default" doc:"Used if neither run, deployment nor flow has a tier"`
}

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{sandbox: d.Sandbox, log: d.Log, held: d.Config.MaxTaskSecs, tiers: d.Config.Tiers}
	g := httpapi.Group{API: api, Function: name, Reads: tenant.Needs(tenant.RunsRead)}
	httpapi.Get(g, "/backends", s.list, "List the executors of this deployment", httpapi.ID("backends-list"),
		httpapi.Doc("The executor of each task type ("+strings.Join(tasktype.Names(), ", ")+"), with its timeouts and, if the "+
			"runtime tier matters, the memory of each. An executor that this deployment lacks is listed with available false."))
}
