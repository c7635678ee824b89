package fn

import (
	"context"
	"net/http"
	"time"

	"millrace/shared/kit/consumer"
	"millrace/shared/kit/due"
	"millrace/shared/kit/outbound"
	"millrace/shared/kit/record"
	"millrace/shared/run/alert"
	"millrace/shared/run/launch"
	"millrace/shared/run/registry"
	"millrace/shared/run/tasktype"
	"millrace/shared/run/worker"
)

// Records returns the store of a function's records.
func (d Deps) Records() record.Store {
	return record.Store{Table: d.Table, Clock: d.Clock, Quota: d.Quota}
}

// Registry returns the registry of flows and deployments.
func (d Deps) Registry() registry.Store {
	return registry.Store{
		Table: d.Table, Blob: d.Blob, Clock: d.Clock, Log: d.Log, Quota: d.Quota,
		Kinds: tasktype.KindsWithin(d.Config.MaxTaskSecs, d.Config.Tiers), Tiers: d.Config.Tiers,
	}
}

// Launcher returns the launcher, which accepts runs.
func (d Deps) Launcher() *launch.Launcher {
	return &launch.Launcher{
		Table: d.Table, Queues: d.Queues, Blob: d.Blob, Clock: d.Clock, Log: d.Log, Metrics: d.Metrics, Spans: d.Spans,
		Broker: d.Broker, Quota: d.Quota, Counter: &launch.RunCounter{}, Tiers: d.Config.Tiers,
	}
}

// Alerts returns the sender of messages to notification channels.
func (d Deps) Alerts() *alert.Sender {
	return &alert.Sender{
		Client: d.Outbound(), Vault: d.Vault, Mail: d.Mail, Clock: d.Clock, Links: d.Config.LinkURL, Help: d.Config.OutboundHelp,
	}
}

// Worker returns the configuration of a worker that reconciles runs and, given
// executors, executes their tasks.
func (d Deps) Worker() worker.Config {
	return worker.Config{
		Table: d.Table, Queues: d.Queues, Blob: d.Blob, Bus: d.Bus, Clock: d.Clock, Log: d.Log, Metrics: d.Metrics, Spans: d.Spans,
		Logs: d.Logs, Broker: d.Broker, Quota: d.Quota, ProcessID: d.Config.ProcessID, Exclusive: d.Config.Exclusive, LongLived: d.Config.LongLived,
	}
}

// Due returns the handler of a function's timed work. do handles a task; see
// [due.Handler].
func (d Deps) Due(do func(context.Context, due.Task) error) MessageHandler {
	return due.Handler{Queues: d.Queues, Clock: d.Clock, Log: d.Log, Metrics: d.Metrics, Do: do}.Messages
}

// Events returns the handler of a function's events, each of which is handled
// once (package consumer). name is the consumer's name. lease is how long a
// handler may run: the function's timeout.
func (d Deps) Events(name string, lease time.Duration, routes ...consumer.Route) MessageHandler {
	return consumer.New(d.consumer(name, lease), routes...).Messages
}

// RepeatableEvents is Events for handlers that may handle an event again, or in
// two processes at once. It makes no writes of its own.
func (d Deps) RepeatableEvents(name string, lease time.Duration, routes ...consumer.Route) MessageHandler {
	cfg := d.consumer(name, lease)
	cfg.Repeatable = true
	return consumer.New(cfg, routes...).Messages
}

func (d Deps) consumer(name string, lease time.Duration) consumer.Config {
	return consumer.Config{Name: name, Table: d.Table, Queues: d.Queues, Clock: d.Clock, Log: d.Log, Lease: lease}
}

// Outbound returns a client for requests on behalf of users, which reaches the
// addresses that the operator allows.
func (d Deps) Outbound() *http.Client {
	client, err := outbound.NewClient(outbound.Policy{Loopback: d.Config.AllowLoopback, Ranges: d.Config.AllowRanges})
	if err != nil {
		panic(err) // the operator's ranges were validated
	}
	return client
}
