package runs

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// restarting answers requests in order; "" is a server that does not answer, and the
// last answer is repeated.
type restarting struct {
	answers []string
	asked   int
}

func (r *restarting) RoundTrip(*http.Request) (*http.Response, error) {
	answer := r.answers[min(r.asked, len(r.answers)-1)]
	r.asked++
	if answer == "" {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, nil
}

const (
	running = `{"status": "RUNNING", "task_runs": [{"task_name": "load", "attempt": 1, "status": "RUNNING"}]}`
	ended   = `{"status": "SUCCEEDED", "run_slug": "a-b-c-1", "duration_ms": 1500, "task_runs": [{"task_name": "load", "attempt": 1, "status": "SUCCEEDED"}]}`
)

func TestWatchedRunOutlivesRestartOfItsServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers  []string
		code     int
		out, err string
	}{
		"a restart": {
			[]string{running, "", "", ended}, command.Done,
			"load                     RUNNING\nload                     SUCCEEDED\nSUCCEEDED in 1.5s  a-b-c-1\n",
			"waiting 1s: http://a.test does not answer\nwaiting 2s: http://a.test does not answer\n",
		},
		"an end": {
			[]string{running, ""}, command.Failure, "load                     RUNNING\n",
			"the run goes on: millrace logs -f r, millrace cancel r\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				cmd := &cobra.Command{}
				cmd.SetContext(t.Context())
				cmd.SetOut(&out)
				cmd.SetErr(&errs)
				from := time.Now()
				err := watch(cmd, &session.Session{}, &client.Client{BaseURL: "http://a.test", HTTP: &http.Client{Transport: &restarting{answers: c.answers}}}, "r")
				assert.Equal(t, c.code, command.Code(err), "%v", err)
				assert.Equal(t, c.out, out.String())
				assert.True(t, strings.HasSuffix(errs.String(), c.err), errs.String())
				assert.Less(t, time.Since(from), session.WatchPatience+watchEvery)
			})
		})
	}
}

func TestFollowedLogOutlivesRestartOfItsServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&errs)
		event := func(text string) string {
			return `{"level": "info", "task_name": "load", "message": "` + text + `", "timestamp": "2026-01-02T03:04:06Z"}`
		}
		api := &client.Client{BaseURL: "http://a.test", HTTP: &http.Client{Transport: &restarting{answers: []string{
			`{"events": [` + event("first") + `], "next_token": "a"}`, "", `{"events": [` + event("last") + `]}`,
		}}}}
		o := reading{follow: true}
		o.wait(cmd, api)
		require.NoError(t, o.print(t.Context(), api, "r", output.New(&out, false)))
		assert.Equal(t, "2026-01-02T03:04:06Z info load: first\n2026-01-02T03:04:06Z info load: last\n", out.String())
		assert.Equal(t, "waiting 1s: http://a.test does not answer\n", errs.String())
	})
}
