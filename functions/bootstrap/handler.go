package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"millrace/shared/web/fn"
	"millrace/shared/web/gateway"
)

// start builds the function in the form that its trigger requires.
func (p *platform) start() (started, error) {
	if p.err != nil {
		return started{}, fmt.Errorf("%w of %s: %w", errSettings, p.spec.Name, p.err)
	}
	out := started{setDefaultLoggers: p.setDefaultLoggers}
	if p.deps.Logs != nil {
		// This makes Lambda send SIGTERM before it ends an environment, also after a
		// time-out.
		out.options = append(out.options, lambda.WithEnableSIGTERM(p.flush))
	}
	switch {
	case p.spec.Routes != nil:
		f := gateway.New(p.spec, p.service.Frame, p.deps, p.flush)
		switch {
		case p.spec.Trigger.OwnURL:
			out.handler = observed(&p.observer, f.AnswerURL)
		case f.Streams():
			out.handler = observed(&p.observer, f.Stream)
		default:
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

// messages returns a function triggered by queues. It receives whole bodies,
// and the queues' names in the service.
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

// named returns the queue's name in an ARN without the deployment's prefix.
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
