package taskworker

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	"millrace/shared/run/executor"
	"millrace/shared/run/secret"
	"millrace/shared/run/tasktype"
	"millrace/shared/run/worker"
	"millrace/shared/web/fn"
)

// executors returns the executors of the task types in package tasktype.
func executors(d fn.Deps, client *http.Client) executor.Set {
	return executor.Set{
		"python":    executor.Python{Sandbox: d.Sandbox, Blob: d.Blob},
		"http":      executor.HTTP{Client: client, Help: d.Config.OutboundHelp},
		"transform": executor.Transform{},
		"wait":      executor.Wait{Now: d.Clock.Now},
	}
}

// messages builds the worker with all executors.
func messages(d fn.Deps) fn.MessageHandler {
	set := executors(d, d.Outbound())
	if got := slices.Sorted(maps.Keys(set)); !slices.Equal(got, tasktype.Kinds().Names()) {
		panic(fmt.Sprintf("taskworker: there are executors of %v, but task types %v", got, tasktype.Kinds().Names()))
	}
	cfg := d.Worker()
	cfg.Secret, cfg.Executors = secret.Resolver{Table: d.Table, Vault: d.Vault}.Value, set
	return worker.New(cfg).Messages
}
