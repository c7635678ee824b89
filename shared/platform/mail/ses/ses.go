// Package ses is the [mail.Sender] driver for Amazon SES. The sender of
// messages is one of the account's verified identities. SES writes the format
// and the Message-ID of messages.
package ses

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sesv2"
	"github.com/aws/aws-sdk-go-v2/service/sesv2/types"
	"github.com/aws/smithy-go"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/mail"
)

// Config selects the sender and how to reach SES.
type Config struct {
	// From is the sender of every message, "alerts@example.com" or
	// "Name <alerts@example.com>". The address or its domain is a verified
	// identity.
	From string
	// AWS loads region, credentials and endpoint on first use; nil means those
	// of the environment.
	AWS func(ctx context.Context) (aws.Config, error)
}

// Sender is the SES driver. Create it with New.
type Sender struct {
	cfg  Config
	from string

	mu     sync.Mutex // guards the lazy client
	client *sesv2.Client
}

var _ mail.Sender = (*Sender)(nil)

// New returns a sender. It makes no request: the client is built on first use.
// Errors: mail.ErrArgument for a sender that is no address.
func New(cfg Config) (*Sender, error) {
	if cfg.AWS == nil {
		cfg.AWS = awsenv.Load
	}
	from, err := mail.Address(cfg.From)
	if err != nil {
		return nil, fmt.Errorf("sender: %w", err)
	}
	s := &Sender{cfg: cfg, from: from.Address}
	if from.Name != "" {
		s.from = from.String()
	}
	return s, nil
}

// connect returns the client. An error is not cached: the next call tries
// again.
func (s *Sender) connect(ctx context.Context) (*sesv2.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		// The client outlives the first caller, so its cancellation must not apply.
		base, err := s.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, err
		}
		// SES does not recognize a repeated request, so only the caller repeats it.
		s.client = sesv2.NewFromConfig(base, func(o *sesv2.Options) { o.Retryer = aws.NopRetryer{} })
	}
	return s.client, nil
}

// Send sends the message with one request.
func (s *Sender) Send(ctx context.Context, m mail.Message) error {
	if err := errors.Join(ctx.Err(), m.Check()); err != nil {
		return err
	}
	client, err := s.connect(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", mail.ErrUnavailable, err)
	}
	text := func(data string) *types.Content {
		return &types.Content{Data: aws.String(data), Charset: aws.String("UTF-8")}
	}
	_, err = client.SendEmail(ctx, &sesv2.SendEmailInput{
		FromEmailAddress: &s.from,
		Destination:      &types.Destination{ToAddresses: m.To},
		Content: &types.EmailContent{Simple: &types.Message{
			Subject: text(m.Subject), Body: &types.Body{Text: text(m.Text)},
			// No vacation replies.
			Headers: []types.MessageHeader{{Name: aws.String("Auto-Submitted"), Value: aws.String("auto-generated")}},
		}},
	})
	return translate(ctx, err)
}

// passing lists the error codes of requests with a status of 400 to 499 that may
// succeed later.
var passing = map[string]bool{
	"TooManyRequestsException": true, "ThrottlingException": true, "Throttling": true, "LimitExceededException": true,
	"SendingPausedException": true, "ExpiredTokenException": true, "RequestExpired": true,
}

// translate returns the port's error for one of the SDK's.
func translate(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	api, isAPI := errors.AsType[smithy.APIError](err)
	response, answered := errors.AsType[*awshttp.ResponseError](err)
	refused := isAPI && !passing[api.ErrorCode()] && answered && response.HTTPStatusCode() < http.StatusInternalServerError &&
		response.HTTPStatusCode() != http.StatusTooManyRequests
	switch {
	case refused:
		return fmt.Errorf("%w: %s: %s", mail.ErrRefused, api.ErrorCode(), api.ErrorMessage())
	case isAPI:
		return fmt.Errorf("%w: %s: %s", mail.ErrUnavailable, api.ErrorCode(), api.ErrorMessage())
	}
	return fmt.Errorf("%w: %w", mail.ErrUnavailable, err)
}
