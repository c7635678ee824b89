// Package client is a client of the HTTP API for the demo and the end-to-end
// tests.
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
	HTTP    *http.Client
}

// Error is a response other than 2xx.
type Error struct {
	Method, Path string
	Status       int
	Body         string
}

// Error returns status and body of the response.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s answered %d: %s", e.Method, e.Path, e.Status, e.Body)
}

// Do sends in as JSON, unless it is nil, and decodes the response into out,
// unless that is nil. Errors: *Error for a response other than 2xx.
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
	req, err := http.NewRequestWithContext(ctx, method, c.BaseURL+path, body)
	if err != nil {
		return err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	res, err := c.http().Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return &Error{Method: method, Path: path, Status: res.StatusCode, Body: string(data)}
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
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
