package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"millrace/shared/account/identity"
	"millrace/shared/web/fn"
	"millrace/shared/web/gateway"
	"millrace/shared/web/httpapi"
)

// start builds the function in the form its trigger asks for.
func (p *platform) start() (started, error) {
	if p.err != nil {
		return started{}, p.err
	}
	out := started{speak: p.speak}
	if p.deps.Logs != nil {
		// With this Lambda sends SIGTERM before it ends an environment, also one
		// whose event took too long.
		out.options = append(out.options, lambda.WithEnableSIGTERM(p.flush))
	}
	switch {
	case p.spec.Routes != nil:
		frame, err := p.frame()
		if err != nil {
			return started{}, fmt.Errorf("%w of %s: %w", errSettings, p.spec.Name, err)
		}
		if f := gateway.New(p.spec, frame, p.deps, p.flush); f.Streams() {
			out.handler = observed(&p.observer, f.Stream)
		} else {
			out.handler = observed(&p.observer, f.Answer)
		}
	case p.spec.Messages != nil:
		out.handler = observed(&p.observer, p.messages())
	case p.spec.Handle != nil:
		out.handler = observed(&p.observer, p.handle(p.spec.Handle(p.deps)))
	default:
		return started{}, fmt.Errorf("%s takes no event", p.spec.Name)
	}
	return out, nil
}

// frame is the API frame of an HTTP function.
func (p *platform) frame() (httpapi.Config, error) {
	frame := httpapi.Config{
		Title: "Millrace", Version: p.cfg.Version, Clock: p.deps.Clock, CursorKey: p.cfg.CursorKey, Log: p.deps.Log, Metrics: p.deps.Metrics,
		Limiter: p.deps.Quota,
	}
	if p.spec.Needs.Blob == fn.Writes {
		frame.Traces = p.deps.Blob
	}
	if p.deps.Table == nil {
		return frame, nil // public operations only
	}
	auth := identity.Config{Table: p.deps.Table, Clock: p.deps.Clock, SuperAdmins: p.cfg.SuperAdmins, Log: p.deps.Log}
	if p.cfg.Issuer != "" {
		var err error
		auth.SignIn, err = identity.NewSignIn(identity.SignInConfig{
			Issuer: p.cfg.Issuer, Audience: p.cfg.Audience, JWKSURL: p.cfg.JWKS, Clock: p.deps.Clock,
		})
		if err != nil {
			return frame, err
		}
	}
	var err error
	frame.Authenticator, err = identity.NewAuthenticator(auth)
	return frame, err
}

// messages is a function that queues feed: it sees whole bodies, and the names
// that queues have in the service.
func (p *platform) messages() fn.MessageHandler {
	handle := p.queues.Messages(p.spec.Messages(p.deps))
	return func(ctx context.Context, batch events.SQSEvent) (events.SQSEventResponse, error) {
		defer p.flush()
		for i := range batch.Records {
			batch.Records[i].EventSourceARN = p.named(batch.Records[i].EventSourceARN)
		}
		return handle(ctx, batch)
	}
}

// named takes the deployment's prefix off the name in a queue's ARN.
func (p *platform) named(arn string) string {
	at := strings.LastIndexByte(arn, ':') + 1
	return arn[:at] + strings.TrimPrefix(arn[at:], p.cfg.QueuePrefix)
}

func (p *platform) handle(next fn.Handler) fn.Handler {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		defer p.flush()
		return p.measured(next)(ctx, payload)
	}
}
