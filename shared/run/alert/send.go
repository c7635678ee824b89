package alert

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"millrace/shared/kit/mask"
	"millrace/shared/kit/outbound"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/mail"
	"millrace/shared/platform/vault"
)

// Timeout is how long a receiver may take to accept a message.
const Timeout = 10 * time.Second

// The outcomes of a message.
const (
	StatusDelivered = "delivered"
	StatusFailed    = "failed"
)

// Result is the outcome of sending a message.
type Result struct {
	Status string // StatusDelivered or StatusFailed
	// Detail is what the receiver answered, or why the message did not reach it, in
	// one line without secrets.
	Detail string
	// Retryable reports that the message failed and may be accepted later.
	Retryable bool
	// RetryAfter is how long the receiver asks to wait before the message is sent
	// again; 0: it does not say.
	RetryAfter time.Duration
}

// Sender sends messages to channels. It is safe for concurrent use.
type Sender struct {
	Client *http.Client // from package outbound
	Vault  vault.Vault
	Mail   mail.Sender // nil: there is no mail server
	Clock  clock.Clock
	Links  string // base URL of links to runs, without a trailing slash; empty: none
	Help   string // tells how the operator can allow a refused address; empty: it cannot be allowed
}

// Send sends a message to a channel. It takes little longer than Timeout.
func (s *Sender) Send(ctx context.Context, c *Channel, m Message) Result {
	if m.Resolved && c.Type != Incident {
		return delivered("only incidents are resolved")
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	config, err := c.open(ctx, s.Vault)
	if err != nil {
		if errors.Is(err, vault.ErrRejected) {
			return failed(false, "the channel's configuration cannot be opened with the vault's keys: create the channel anew")
		}
		return failed(true, "the channel's configuration cannot be opened now")
	}
	if s.Links != "" {
		m.Run.URL = new(s.Links + "/runs/" + m.Run.RunID)
	}
	switch c.Type {
	case Chat:
		return s.chat(ctx, config, &m)
	case Email:
		return s.email(ctx, config, &m)
	case Webhook:
		return s.webhook(ctx, config, &m)
	case Incident:
		return s.incident(ctx, config, &m)
	}
	return failed(false, "channels of type %s are not known", c.Type)
}

func delivered(format string, args ...any) Result {
	return Result{Status: StatusDelivered, Detail: fmt.Sprintf(format, args...)}
}

func failed(retryable bool, format string, args ...any) Result {
	return Result{Status: StatusFailed, Detail: fmt.Sprintf(format, args...), Retryable: retryable}
}

// post posts JSON and judges the answer.
func (s *Sender) post(ctx context.Context, config Config, to string, body []byte, header http.Header) Result {
	hide := config.masker()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return failed(false, "the channel's URL is not valid")
	}
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/json")
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "millrace")
	}
	// A redirected POST loses its body, or takes it where its owner did not say.
	res, err := outbound.KeepRedirects(s.Client, func(int) bool { return true }).Do(req)
	if err != nil {
		return s.unreachable(ctx, hide, err)
	}
	defer res.Body.Close()
	answer := fmt.Sprintf("%s answered %d", host(to), res.StatusCode)
	switch code := res.StatusCode; {
	case code >= 200 && code <= 299:
		return delivered("%s", answer)
	case code >= 300 && code <= 399:
		return failed(false, "%s: redirects are not followed; give the channel the URL that it leads to", answer)
	default:
		if text := excerpt(res.Body, hide); text != "" {
			answer += ": " + text
		}
		again := code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code == http.StatusTooEarly
		result := failed(again, "%s", answer)
		if again {
			result.RetryAfter = retryAfter(res.Header, s.Clock.Now())
		}
		return result
	}
}

// unreachable returns the result of a request that got no answer.
func (s *Sender) unreachable(ctx context.Context, hide *mask.Masker, err error) Result {
	switch {
	case outbound.Denied(err) && s.Help != "":
		return failed(false, "the URL leads to an address that channels may not reach: %s", s.Help)
	case outbound.Denied(err):
		return failed(false, "the URL leads to an address that channels may not reach")
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return failed(true, "no answer within %s", Timeout)
	}
	return failed(true, "the request failed: %s", oneLine(hide.String(outbound.Cause(err)), maxExcerpt))
}

// host returns the host of a URL, which may be shown.
func host(to string) string {
	u, err := url.Parse(to)
	if err != nil {
		return "the receiver"
	}
	return u.Host
}

// maxRetryAfter bounds what a receiver can ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads the header Retry-After: seconds, or a date.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// maxExcerpt is how much of an answer is shown, in bytes.
const maxExcerpt = 200

// excerpt returns the beginning of an answer in one line. Secrets are masked
// before it is cut, because a part of one could remain otherwise.
func excerpt(body io.Reader, hide *mask.Masker) string {
	data, _ := io.ReadAll(io.LimitReader(body, 16<<10)) // what there is
	return oneLine(hide.String(strings.ToValidUTF8(string(data), "\ufffd")), maxExcerpt)
}
