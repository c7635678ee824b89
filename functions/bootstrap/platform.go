package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"millrace/functions/catalog"
	"millrace/shared/account/audit"
	"millrace/shared/account/identity"
	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/bus/eventbridge"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/mail/ses"
	"millrace/shared/platform/queue/sqs"
	signer "millrace/shared/platform/signature/kms"
	"millrace/shared/platform/table"
	"millrace/shared/platform/table/dynamo"
	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/otlp"
	"millrace/shared/platform/vault/kms"
	"millrace/shared/run/sandbox/invoke"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// flushPatience is how long storing the logs of runs may take after an event,
// or when the environment is shut down.
const flushPatience = 5 * time.Second

// platform holds the dependencies of one function.
type platform struct {
	cfg      settings
	spec     fn.Spec
	deps     fn.Deps
	queues   *sqs.Queues // the driver in deps.Queues
	service  *catalog.Service
	err      error // of creating them
	observer observer
	spans    *otlp.Exporter // nil: none are exported
	bucket   blob.Store     // nil: the function does not use it
}

// newPlatform creates the drivers that the spec needs; the others stay nil. It
// contacts nothing.
func newPlatform(cfg settings, spec fn.Spec) *platform {
	now, needs := clock.System{}, spec.Needs
	p := &platform{cfg: cfg, spec: spec, observer: observer{
		function: spec.Name, clock: now, metrics: telemetry.NewMetrics(cfg.Metrics, os.Stdout), quiet: spec.Trigger.OwnURL,
	}}
	p.deps = fn.Deps{
		Clock: now,
		Log:   telemetry.NewLogger(os.Stdout, telemetry.JSON, cfg.LogLevel), Metrics: p.observer.metrics,
		Config: fn.Config{
			Version: cfg.Version, Region: cfg.Region, AllowRanges: cfg.AllowRanges, ProcessID: ids.Token(6), Bucket: cfg.Bucket, Tiers: cfg.Tiers,
		},
	}
	p.spans = otlp.New(cfg.OTLP, p.deps.Log, slog.String("service.name", "millrace"), slog.String("service.version", cfg.Version),
		slog.String("faas.name", spec.Name), slog.String("cloud.provider", "aws"), slog.String("cloud.region", cfg.Region))
	p.deps.Spans = p.spans.Collector()
	if needs.Links {
		p.deps.Config.LinkURL = cfg.URL
	}
	if spec.Trigger.Unmatched {
		p.deps.Config.URL = cfg.URL
		p.deps.Config.SignIn = fn.SignIn{Issuer: cfg.Issuer, Client: cfg.Audience}
	}
	load := sync.OnceValues(func() (aws.Config, error) { return awsenv.Load(context.Background()) })
	aws := func(context.Context) (aws.Config, error) { return load() }
	if needs.Table != fn.NoAccess {
		p.deps.Table = table.Metered(dynamo.New(dynamo.Config{Table: cfg.Table, AWS: aws}), &p.observer.units)
	}
	if usesBucket(spec) {
		// Writes that the role denies in the cloud fail on every machine.
		p.bucket = blob.Within(s3.New(s3.Config{
			Bucket: cfg.Bucket, Region: cfg.Region,
			Endpoint: cfg.ObjectEndpoint, PathStyle: cfg.ObjectEndpoint != "",
		}), spec.WriteFolders()...)
	}
	if needs.Blob != fn.NoAccess {
		p.deps.Blob = p.bucket
	}
	if needs.Locked != fn.NoAccess && cfg.LockedBucket != "" {
		folders := []string{}
		if needs.Locked == fn.Writes {
			folders = append(folders, audit.Folder)
		}
		p.deps.Locked = blob.Within(s3.New(s3.Config{
			Bucket: cfg.LockedBucket, Region: cfg.Region, Endpoint: cfg.LockedEndpoint, PathStyle: cfg.LockedEndpoint != "",
		}), folders...)
	}
	if usesQueues(spec) {
		p.queues = sqs.New(sqs.Config{Prefix: cfg.QueuePrefix, AWS: aws, Objects: p.deps.Blob, Clock: now, Log: p.deps.Log})
		p.deps.Queues = p.queues
	}
	if needs.Vault {
		p.deps.Vault, p.err = kms.New(kms.Config{Key: cfg.VaultKey, AWS: aws, Clock: now})
	}
	if needs.Signer != fn.NoAccess {
		s, err := signer.New(signer.Config{Key: cfg.SigningKey, AWS: aws})
		p.deps.Signer, p.err = s, errors.Join(p.err, err)
	}
	if needs.Mail && cfg.MailFrom != "" {
		sender, err := ses.New(ses.Config{From: cfg.MailFrom, AWS: aws})
		if err != nil {
			p.err = err
		} else {
			p.deps.Mail = sender
		}
	}
	if needs.Publish {
		p.deps.Bus = eventbridge.New(eventbridge.Config{Bus: cfg.Bus, AWS: aws})
	}
	if needs.APIKey {
		p.deps.Config.APIKey = cfg.APIKey
	}
	if needs.AttemptKey {
		p.deps.Config.AttemptKeys = cfg.AttemptKeys
	}
	if needs.Description {
		p.deps.Sandbox = invoke.Description{}
	}
	if needs.Sandbox {
		box, err := invoke.New(invoke.Config{Prefix: cfg.SandboxPrefix, Keys: cfg.AttemptKeys, AWS: aws})
		if err != nil {
			p.err = err
		} else {
			p.deps.Sandbox = box
		}
	}
	if p.err == nil {
		p.service, p.err = p.assemble()
	}
	return p
}

// assemble builds the function with its drivers.
func (p *platform) assemble() (*catalog.Service, error) {
	s := catalog.Settings{
		SuperAdmins: p.cfg.SuperAdmins, CursorKeys: p.cfg.CursorKeys, Limits: p.cfg.Limits, Traces: p.bucket, Origins: p.cfg.Origins,
	}
	if p.cfg.Issuer != "" {
		signIn, err := identity.NewSignIn(identity.SignInConfig{
			Issuer: p.cfg.Issuer, Audience: p.cfg.Audience, JWKSURL: p.cfg.JWKS, Clock: p.deps.Clock,
		})
		if err != nil {
			return nil, err
		}
		s.SignIn = signIn
	}
	out, err := catalog.Assemble([]fn.Spec{p.spec}, p.deps, s)
	if err != nil {
		return nil, err
	}
	if p.deps = out.Deps; p.spec.Trigger.Unmatched {
		whole := out.Frame // built on demand, so that cold starts do not pay for it
		out.Frame.Whole = sync.OnceValue(func() *httpapi.API { return catalog.API(catalog.Routed(catalog.All()), whole) })
	}
	return out, nil
}

// flush stores buffered logs of runs, writes the metrics and exports spans: between two events
// an environment is frozen, possibly forever.
func (p *platform) flush() {
	if p.deps.Logs != nil {
		ctx, cancel := context.WithTimeout(context.Background(), flushPatience)
		defer cancel()
		if err := p.deps.Logs.Close(ctx); err != nil {
			p.complain("logs of runs were not stored", err)
		}
	}
	if err := p.observer.flush(); err != nil {
		p.complain("metrics were not written", err)
	}
	p.spans.Flush(context.Background())
}

func (p *platform) complain(what string, err error) {
	s := p.observer.subject()
	p.deps.Log.ErrorContext(telemetry.With(context.Background(), &s), what, "error", err)
}
