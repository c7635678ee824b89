package taskworker

import (
	"millrace/shared/kit/outbound"
	"millrace/shared/run/executor"
	"millrace/shared/run/secret"
	"millrace/shared/run/worker"
	"millrace/shared/web/fn"
)

// messages builds the worker with everything that runs tasks.
func messages(d fn.Deps) fn.MessageHandler {
	client, err := outbound.NewClient(outbound.Policy{Loopback: d.Config.AllowLoopback, Ranges: d.Config.AllowRanges})
	if err != nil {
		panic(err) // the operator's ranges are checked when they are set
	}
	cfg := d.Worker()
	cfg.Secret = secret.Resolver{Table: d.Table, Vault: d.Vault}.Value
	cfg.Executors = executor.Set{
		"python":    executor.Python{Sandbox: d.Sandbox, Blob: d.Blob},
		"http":      executor.HTTP{Client: client},
		"transform": executor.Transform{},
		"wait":      executor.Wait{Now: d.Clock.Now},
	}
	return worker.New(cfg).Messages
}
