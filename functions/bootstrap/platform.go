package main

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"millrace/shared/blob/s3"
	"millrace/shared/bus/eventbridge"
	"millrace/shared/clock"
	"millrace/shared/fn"
	"millrace/shared/ids"
	"millrace/shared/queue/sqs"
	"millrace/shared/runlog"
	"millrace/shared/sandbox/invoke"
	"millrace/shared/signal"
	"millrace/shared/table/dynamo"
)

// flushPatience is how long the logs of runs may take to be stored after an
// event, or when the environment is shut down.
const flushPatience = 5 * time.Second

// platform is what one function is built on.
type platform struct {
	cfg    settings
	spec   fn.Spec
	deps   fn.Deps
	queues *sqs.Queues // the driver behind deps.Queues
	err    error       // of making deps
}

// newPlatform makes the drivers of what the spec needs; all else stays nil. It
// contacts nothing.
func newPlatform(cfg settings, spec fn.Spec) *platform {
	p := &platform{cfg: cfg, spec: spec}
	now, needs := clock.System{}, spec.Needs
	p.deps = fn.Deps{
		Clock: now, Hub: &signal.Hub{},
		Log: slog.New(slog.NewJSONHandler(os.Stdout, &slog.HandlerOptions{Level: cfg.LogLevel})).With("function", spec.Name),
		Config: fn.Config{
			Version: cfg.Version, Region: cfg.Region, AllowRanges: cfg.AllowRanges, Boot: ids.Token(6),
		},
	}
	load := sync.OnceValues(func() (aws.Config, error) { return config.LoadDefaultConfig(context.Background()) })
	aws := func(context.Context) (aws.Config, error) { return load() }
	if needs.Table != fn.NoAccess {
		p.deps.Table = dynamo.New(dynamo.Config{Table: cfg.Table, AWS: aws})
	}
	if needs.Blob != fn.NoAccess {
		p.deps.Blob = s3.New(s3.Config{
			Bucket: cfg.Bucket, Region: cfg.Region,
			Endpoint: cfg.ObjectEndpoint, PathStyle: cfg.ObjectEndpoint != "",
		})
	}
	if usesQueues(spec) {
		p.queues = sqs.New(sqs.Config{Prefix: cfg.QueuePrefix, AWS: aws, Objects: p.deps.Blob, Clock: now, Log: p.deps.Log})
		p.deps.Queues = p.queues
	}
	if needs.Publish {
		p.deps.Bus = eventbridge.New(eventbridge.Config{Bus: cfg.Bus, AWS: aws})
	}
	if needs.Table != fn.NoAccess && needs.Blob != fn.NoAccess {
		p.deps.Logs = &runlog.Store{Table: p.deps.Table, Blob: p.deps.Blob, Clock: now, Log: p.deps.Log}
	}
	if needs.AttemptKey {
		p.deps.Config.AttemptKey = cfg.AttemptKey
	}
	if needs.Sandbox {
		box, err := invoke.New(invoke.Config{
			Prefix: cfg.SandboxPrefix, LogURL: cfg.LogURL, Key: cfg.AttemptKey, AWS: aws, Clock: now,
		})
		if p.err = err; err == nil {
			p.deps.Sandbox = box
		}
	}
	return p
}

// flush stores the logs of runs that wait in memory: between two events an
// environment is frozen, and it may never wake again.
func (p *platform) flush() {
	if p.deps.Logs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushPatience)
	defer cancel()
	if err := p.deps.Logs.Close(ctx); err != nil {
		p.deps.Log.Error("logs of runs were not stored", "error", err)
	}
}
