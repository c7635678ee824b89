package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// script answers requests in order; the last answer is repeated.
type script struct {
	answers []func() (*http.Response, error)
	asked   int
}

func (s *script) RoundTrip(*http.Request) (*http.Response, error) {
	answer := s.answers[min(s.asked, len(s.answers)-1)]
	s.asked++
	return answer()
}

func status(code int, retryAfter string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		res := &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"detail":"busy"}`))}
		if retryAfter != "" {
			res.Header.Set("Retry-After", retryAfter)
		}
		return res, nil
	}
}

func cut() (*http.Response, error) {
	return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"a`), failing{}))}, nil
}

func refused() (*http.Response, error) { return nil, errors.New("connection refused") }

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestPatientClientRepeatsWhatIsBusy(t *testing.T) {
	t.Parallel()
	type answers = []func() (*http.Response, error)
	ok := status(200, "")
	for name, c := range map[string]struct {
		method  string
		answers answers
		asked   int
		waited  time.Duration
		fails   bool
	}{
		"at once":             {"GET", answers{ok}, 1, 0, false},
		"as it says":          {"GET", answers{status(429, "7"), ok}, 2, 7 * time.Second, false},
		"until a date":        {"GET", answers{status(503, "Sat, 01 Jan 2000 00:00:09 GMT"), ok}, 2, 9 * time.Second, false},
		"without a time":      {"GET", answers{status(502, ""), status(504, ""), ok}, 3, 3 * time.Second, false},
		"connections":         {"GET", answers{refused, cut, ok}, 3, 3 * time.Second, false},
		"pauses are limited":  {"GET", answers{refused, refused, refused, refused, refused, refused, refused, ok}, 8, (31 + 30 + 30) * time.Second, false},
		"too long":            {"GET", answers{status(429, "3600")}, 1, 0, true},
		"for ever":            {"GET", answers{status(429, "60")}, 6, 5 * time.Minute, true},
		"a refusal":           {"GET", answers{status(400, "")}, 1, 0, true},
		"what changes things": {"POST", answers{status(429, "1"), ok}, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				from := time.Now()
				s := &script{answers: c.answers}
				told := 0
				api := &client.Client{BaseURL: "http://a.test", HTTP: &http.Client{Transport: s}, Patience: client.Patience{
					Total: 5 * time.Minute, Waiting: func(time.Duration, error) { told++ },
				}}
				err := api.Do(t.Context(), c.method, "/x", nil, nil)
				assert.Equal(t, c.fails, err != nil, "%v", err)
				assert.Equal(t, c.asked, s.asked)
				assert.Equal(t, c.waited, time.Since(from))
				assert.Equal(t, c.asked-1, told)
			})
		})
	}
}

func TestPatienceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		s := &script{answers: []func() (*http.Response, error){status(429, "60")}}
		api := &client.Client{HTTP: &http.Client{Transport: s}, Patience: client.Patience{Total: time.Hour}}
		_, err := api.Send(ctx, "GET", "/x", nil, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 2, s.asked)
	})
}

func TestImpatientClientAsksOnce(t *testing.T) {
	t.Parallel()
	s := &script{answers: []func() (*http.Response, error){status(429, "1"), status(200, "")}}
	err := (&client.Client{HTTP: &http.Client{Transport: s}}).Do(t.Context(), "GET", "/x", nil, nil)
	answer, ok := errors.AsType[*client.Error](err)
	require.True(t, ok)
	assert.Equal(t, time.Second, answer.RetryAfter)
	assert.Equal(t, 1, s.asked)
}
