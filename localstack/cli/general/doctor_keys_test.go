package general

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/cli/session"
)

// TestDoctorTellsWhatExpires, and only that needs something to be done.
func TestDoctorTellsWhatExpires(t *testing.T) {
	t.Parallel()
	in := func(days int) time.Time { return time.Now().Add(time.Duration(days)*24*time.Hour + time.Minute) }
	keys := func(expires string) string {
		return `{"items": [{"name": "other", "key_prefix": "svc_zz", "expires_at": 1}, {"name": "CI", "key_prefix": "svc_ab", "expires_at": ` + expires + `}]}`
	}
	made := func(days int) string {
		return `{"data": "/data", "keys_made_at": "` + in(-days).UTC().Format(time.RFC3339) + `", "spans": null}`
	}
	spans := func(state string) string { return `{"data": "/data", "spans": ` + state + `}` }
	day := func(days int) string { return in(days).Format(time.DateOnly) }
	for name, c := range map[string]struct {
		target session.Target
		paths  map[string]string // answers; 403 for others
		want   []finding
	}{
		"a key that does not expire": {session.Target{}, map[string]string{"/api-keys": keys("null")}, []finding{{"expiry", true, "svc_ab… (CI) does not expire"}}},
		"a key": {session.Target{}, map[string]string{"/api-keys": keys(fmt.Sprint(in(30).Unix()))},
			[]finding{{"expiry", true, "svc_ab… (CI) expires on " + in(30).Format("2006-01-02 15:04")}}},
		"a key that expires soon": {session.Target{}, map[string]string{"/api-keys": keys(fmt.Sprint(in(13).Unix()))},
			[]finding{{"expiry", false, "svc_ab… (CI) expires on " + in(13).Format("2006-01-02 15:04") + ": make another with millrace keys create"}}},
		"a key that may not list keys": {session.Target{}, nil, nil},
		"an unknown key":               {session.Target{APIKey: "svc_other"}, map[string]string{"/api-keys": keys("null")}, nil},
		"a sign-in that expires soon": {session.Target{ExpiresAt: in(1)}, nil,
			[]finding{{"expiry", false, "the sign-in expires on " + in(1).Format("2006-01-02 15:04") + ": millrace login --url URL"}}},
		"new keys": {session.Target{ExpiresAt: in(90), Operator: "secret"}, map[string]string{"/_local/state": made(300)}, []finding{
			{"expiry", true, "the sign-in expires on " + in(90).Format("2006-01-02 15:04")},
			{"keys", true, "of lists and secret values were made on " + day(-300)}}},
		"old keys": {session.Target{Operator: "secret"}, map[string]string{"/_local/state": made(366)}, []finding{
			{"keys", false, "of lists and secret values were made on " + day(-366) +
				", over a year ago: stop the server, make new ones with millrace rotate-keys --data /data, and start it"}}},
		"the server's secret is another": {session.Target{Operator: "other"}, map[string]string{"/_local/state": made(1)}, []finding{{"keys", false, "no"}}},
		"a server without the route":     {session.Target{Operator: "secret"}, map[string]string{"/_local/state": ""}, nil},
		"another's server":               {session.Target{}, map[string]string{"/_local/state": made(1)}, nil},
		"spans": {session.Target{Operator: "secret"}, map[string]string{"/_local/state": spans(`{"collector": "http://c", "exported": 7}`)},
			[]finding{{"spans", true, "7 exported to http://c"}}},
		"spans, again": {session.Target{Operator: "secret"}, map[string]string{"/_local/state": spans(
			`{"collector": "http://c", "exported": 7, "lost": 2, "error": "the collector answered 503", "failed_at": "2026-03-04T05:06:07Z"}`)},
			[]finding{{"spans", true, "7 exported to http://c, 2 lost, the last on " +
				time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Local().Format("2006-01-02 15:04") + ": the collector answered 503"}}},
		"spans, in vain": {session.Target{Operator: "secret"}, map[string]string{"/_local/state": spans(
			`{"collector": "http://c", "lost": 2, "error": "the collector answered 401", "failed_at": "2026-03-04T05:06:07Z", "failing": true}`)},
			[]finding{{"spans", false, "0 exported to http://c, 2 lost, the last on " +
				time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC).Local().Format("2006-01-02 15:04") +
				": the collector answered 401: check OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS of the server, and the collector"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, ok := c.paths[r.URL.Path]
				if local := r.URL.Path == "/_local/state"; !ok || local != (r.Header.Get("Authorization") == "Bearer secret") {
					w.WriteHeader(http.StatusForbidden)
					body = `{"detail": "no"}`
				} else if body == "" {
					w.WriteHeader(http.StatusNotFound)
				}
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			target := c.target
			target.URL = server.URL
			if target.APIKey == "" {
				target.APIKey = "svc_abcdef"
			}
			for i := range c.want {
				if c.want[i].What == "expiry" && !target.ExpiresAt.IsZero() && !c.want[i].OK {
					c.want[i].Detail = c.want[i].Detail[:len(c.want[i].Detail)-len("URL")] + server.URL
				}
			}
			got := append(credentialOf(t.Context(), target), stateOf(t.Context(), target)...)
			assert.Equal(t, c.want, got)
		})
	}
}
