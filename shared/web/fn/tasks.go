package fn

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"millrace/shared/run/executor"
	"millrace/shared/run/secret"
	"millrace/shared/run/tasktype"
	"millrace/shared/run/worker"
)

// Executors returns the executors of the task types in package tasktype. client
// makes the requests of http tasks.
func (d Deps) Executors(client *http.Client) executor.Set {
	return executor.Set{
		"python":    executor.Python{Sandbox: d.Sandbox, Blob: d.Blob, Tiers: d.Config.Tiers},
		"http":      executor.HTTP{Client: client, Help: d.Config.OutboundHelp},
		"transform": executor.Transform{},
		"wait":      executor.Wait{Now: d.Clock.Now},
	}
}

// Tasks returns a worker with all executors: of a function that executes tasks,
// or that serves the runners to which they are handed off.
func (d Deps) Tasks() *worker.Worker {
	set := d.Executors(d.Outbound())
	if got := slices.Sorted(maps.Keys(set)); !slices.Equal(got, tasktype.Kinds().Names()) {
		panic(fmt.Sprintf("fn: there are executors of %v, but task types %v", got, tasktype.Kinds().Names()))
	}
	cfg := d.Worker()
	cfg.Secret, cfg.Executors = secret.Resolver{Table: d.Table, Vault: d.Vault}.Value, set
	return worker.New(cfg)
}
