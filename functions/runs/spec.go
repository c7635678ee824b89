// Package runs is the function that accepts, shows, lists, compares, cancels
// and retries runs, and pages through their logs.
package runs

import (
	"log/slog"
	"time"

	"millrace/events"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/signal"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
	"millrace/shared/run/runlog"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// name is the function's.
const name = "runs"

// Spec describes the function. Its time-out leaves room for requests that wait
// for their run.
var Spec = fn.Spec{
	Name:     name,
	Doc:      "Accepts runs, shows, lists, compares, cancels and retries them, and pages through their logs.",
	Trigger:  fn.Trigger{HTTP: true},
	Needs:    fn.Needs{Table: fn.Writes, Blob: fn.Writes, Folders: []string{"runs"}, Send: events.AllQueues()},
	MemoryMB: 512,
	Timeout:  15 * time.Minute,
	Routes:   routes,
}

// service holds the rules of runs as the interface shows them.
type service struct {
	table    table.Table
	blob     blob.Store
	log      *slog.Logger
	logs     *runlog.Store
	hub      *signal.Hub
	launcher *launch.Launcher
	cursors  httpapi.Cursors
}

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{
		table: d.Table, blob: d.Blob, log: d.Log, logs: d.Logs, hub: d.Hub, cursors: api.Cursors(),
		launcher: &launch.Launcher{Table: d.Table, Queues: d.Queues, Blob: d.Blob, Clock: d.Clock, Log: d.Log, Hub: d.Hub, Quota: d.Quota, Census: &launch.Census{}, Metrics: d.Metrics},
	}
	s.reads(api)
	s.mutations(api)
}
