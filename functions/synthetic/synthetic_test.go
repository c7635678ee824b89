package synthetic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/telemetry"
	"millrace/shared/web/fn"
)

// api answers requests in order; the last answer is repeated. An empty one is a
// connection that fails.
type api struct {
	t       *testing.T
	answers []string
	asked   []string
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := a.answers[min(len(a.asked), len(a.answers)-1)]
	a.asked = append(a.asked, r.Method+" "+r.URL.String())
	assert.Equal(a.t, "Bearer svc_key", r.Header.Get("Authorization"))
	if answer == "" {
		return nil, errors.New("connection refused")
	}
	status := http.StatusOK
	if !strings.HasPrefix(answer, "{") {
		_, err := fmt.Sscan(answer, &status)
		require.NoError(a.t, err)
	}
	return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Location": {"https://elsewhere.test/"}}, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

func TestOutcomeOfARunIsMeasured(t *testing.T) {
	t.Parallel()
	const queued, running = `{"run_id":"R","status":"QUEUED"}`, `{"run_id":"R","status":"RUNNING"}`
	const many = -1
	for name, c := range map[string]struct {
		answers []string
		want    Result
		asked   int
	}{
		"succeeded":            {[]string{queued, running, `{"run_id":"R","status":"SUCCEEDED"}`}, Result{"SUCCEEDED", "R", 2000, ""}, 3},
		"failed":               {[]string{queued, `{"run_id":"R","status":"FAILED","error_message":"no"}`}, Result{"FAILED", "R", 1000, "no"}, 2},
		"never ends":           {[]string{queued, running}, Result{"UNFINISHED", "R", 50_000, "the run had not ended after 50s"}, many},
		"no connection":        {[]string{""}, Result{"REFUSED", "", 0, `Post "https://api.test/v1/runs": connection refused`}, 1},
		"no such deployment":   {[]string{"404"}, Result{"REFUSED", "", 0, "POST /runs answered 404: 404"}, 1},
		"firewall":             {[]string{"403"}, Result{"REFUSED", "", 0, "POST /runs answered 403: 403"}, 1},
		"redirected elsewhere": {[]string{"302"}, Result{"REFUSED", "", 0, "POST /runs answered 302: 302"}, 1},
		"breaks down":          {[]string{queued, running, "503"}, Result{"REFUSED", "R", 2000, "GET /runs/R answered 503: 503"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &api{t: t, answers: c.answers}
				var logged, measured bytes.Buffer
				s := newService(fn.Deps{
					Clock: clock.System{}, Metrics: telemetry.NewMetrics("M", &measured), Log: slog.New(slog.NewTextHandler(&logged, nil)),
					Config: fn.Config{LinkURL: "https://api.test/v1", APIKey: func(context.Context) (string, error) { return "svc_key", nil }},
				})
				s.http.Transport = a
				assert.Equal(t, c.want, s.try(t.Context()))
				if c.asked == many {
					assert.InDelta(t, 50, len(a.asked), 1, "one a second")
				} else {
					assert.Len(t, a.asked, c.asked)
				}
				assert.Equal(t, "POST https://api.test/v1/runs", a.asked[0])
				require.NoError(t, s.metrics.Flush(s.clock.Now(), telemetry.Subject{}))
				assert.Contains(t, measured.String(), `"Outcome":"`+c.want.Outcome+`"`)
				assert.Contains(t, measured.String(), `"SyntheticRuns":1`)
				assert.Contains(t, measured.String(), fmt.Sprintf(`"SyntheticDuration":[%d]`, c.want.DurationMS))
				assert.Equal(t, c.want.Outcome != "SUCCEEDED", logged.Len() > 0, logged.String())
				assert.NotContains(t, logged.String()+measured.String(), "svc_key")
			})
		})
	}
}

func TestMissingKeyIsMeasured(t *testing.T) {
	t.Parallel()
	a := &api{t: t}
	s := newService(fn.Deps{Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Config: fn.Config{
		LinkURL: "https://api.test", APIKey: func(context.Context) (string, error) {
			return "", errors.New("ResourceNotFoundException: no value")
		},
	}})
	s.http.Transport = a
	r := s.try(t.Context())
	assert.Equal(t, []string{"REFUSED", "no API key: ResourceNotFoundException: no value"}, []string{r.Outcome, r.Error})
	assert.Empty(t, a.asked)
}

func TestAFailedRunIsNoErrorOfTheFunction(t *testing.T) {
	t.Parallel()
	out, err := Spec.Handle(fn.Deps{Clock: clock.System{}, Log: slog.New(slog.DiscardHandler), Config: fn.Config{
		APIKey: func(context.Context) (string, error) { return "", errors.New("none") },
	}})(t.Context(), nil)
	require.NoError(t, err)
	assert.Equal(t, "REFUSED", out.(Result).Outcome)
	assert.Less(t, patience+5*time.Second, Spec.Timeout, "it measures what does not end")
}
