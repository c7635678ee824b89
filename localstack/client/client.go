// Package client is a client of the HTTP API, for the command line, the demo
// and the end-to-end tests.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Client calls a server with a credential.
type Client struct {
	BaseURL string
	Token   string // API key or sign-in token; empty: none is sent
	Org     string // workspace of a caller who is in several; empty: the caller's own
	HTTP    *http.Client

	Patience Patience // zero: every request is sent once
}

// Do sends in as JSON, unless it is nil, and decodes the response into out,
// unless that is nil. Errors: *Error for a response that is not 2xx.
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	return c.do(ctx, method, path, nil, in, out)
}

func (c *Client) do(ctx context.Context, method, path string, header http.Header, in, out any) error {
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	var data []byte
	err := c.patience(method).attempt(ctx, func() error {
		res, err := c.send(ctx, method, path, header, body)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		data, err = io.ReadAll(res.Body)
		return broken(err)
	})
	if err != nil {
		return err
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// Send sends a request with a JSON body, nil for none, and returns the
// response, whose body the caller closes. A redirect is followed without the
// credential. Errors: *Error for a response that is not 2xx.
func (c *Client) Send(ctx context.Context, method, path string, header http.Header, body io.Reader) (res *http.Response, err error) {
	err = c.patience(method).attempt(ctx, func() error {
		res, err = c.send(ctx, method, path, header, body) //nolint:bodyclose // the caller closes it
		return err
	})
	return res, err
}

// send is Send without patience.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, body)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if c.Org != "" {
		req.Header.Set("X-Org-Id", c.Org)
	}
	caller := *c.http()
	// The object store rejects a request that has a credential besides its
	// signature, and other hosts must not see it.
	caller.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		if len(via) >= 5 {
			return errors.New("too many redirects")
		}
		to.Header.Del("Authorization")
		to.Header.Del("X-Org-Id")
		return nil
	}
	res, err := caller.Do(req)
	if err != nil {
		return nil, broken(err)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			return nil, broken(err)
		}
		return nil, &Error{
			Method: method, Path: path, Status: res.StatusCode, Body: string(data), RequestID: res.Header.Get("X-Request-Id"),
			RetryAfter: retryAfter(res.Header, time.Now()),
		}
	}
	return res, nil
}

func (c *Client) http() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return http.DefaultClient
}

// Health is the response of GET /health.
type Health struct {
	Status  string `json:"status"`
	Version string `json:"version"`

	Components []struct {
		Name    string `json:"name"`
		Status  string `json:"status"`
		Message string `json:"message"`
	} `json:"components"`
}

// WaitHealthy polls the health until it is healthy or ctx ends.
func (c *Client) WaitHealthy(ctx context.Context) (Health, error) {
	for {
		var h Health
		err := c.Do(ctx, http.MethodGet, "/health", nil, &h)
		if err == nil && h.Status == "healthy" {
			return h, nil
		}
		if !pause(ctx, 10*time.Millisecond) {
			return h, errors.Join(fmt.Errorf("not healthy, status %q: %w", h.Status, ctx.Err()), err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
