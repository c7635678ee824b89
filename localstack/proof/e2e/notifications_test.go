package e2e

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestChannelsAndAlerts does what a user does who wants to hear of failures.
func TestChannelsAndAlerts(t *testing.T) {
	t.Parallel()
	received := make(chan string, 10)
	chat := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		received <- r.URL.Path + " " + string(body)
	}))
	defer chat.Close()
	data := dataDir(t)
	project := filepath.Dir(data)
	u := &user{t: t, dir: project}
	start(t, filepath.Join(project, ".millrace"), "--allow-loopback")

	made := u.run(chat.URL+"/services/T0\n", "channels", "create", "chat", "#ops")
	assert.Zero(t, made.code, made.err)
	channel, _, _ := strings.Cut(made.out, " ")
	rule, _, _ := strings.Cut(u.must("alerts", "create", "on_failure", "--flow", "etl", "--channel", channel), " ")
	assert.Contains(t, u.must("alerts", "test", rule), "delivered")
	assert.Regexp(t, `^/services/T0 .*\[TEST\] etl FAILED.*http://127\.0\.0\.1:\d+/runs/`, <-received)
	assert.Regexp(t, `\{"webhook_url":"\*\*\*"\}.*delivered .* answered 200`, u.must("channels", "list"))
	assert.Contains(t, u.must("channels", "get", channel), "#ops")
	assert.Contains(t, u.must("alerts", "list"), channel)
	assert.Contains(t, u.must("alerts", "get", rule), "on_failure etl")
	u.must("alerts", "create", "on_sla_breach", "--sla", "2h", "--name", "slow")
	assert.Contains(t, u.must("alerts", "list"), "7200 s")

	mail := u.must("channels", "create", "email", "On call", "--to", "a@example.com,b@example.com")
	everywhere, _, _ := strings.Cut(u.must("alerts", "create", "on_retry"), " ")
	failed := u.run("", "alerts", "test", everywhere)
	assert.Equal(t, 1, failed.code)
	assert.Contains(t, failed.out, "no mail server is set")
	<-received

	for _, test := range []struct {
		stdin string
		args  []string
		code  int
		says  string
	}{
		{"", []string{"channels", "delete", channel}, 1, "is in use by alert rule 'on_failure etl'"},
		{"", []string{"channels", "get", "none"}, 6, "there is no channel none"},
		{"", []string{"channels", "create", "pager", "x"}, 2, "is no type of channel"},
		{"", []string{"channels", "create", "chat", "x"}, 2, "is empty"},
		{"", []string{"channels", "create", "email", "x"}, 2, "takes --to ADDRESS"},
		{"https://example.com", []string{"channels", "create", "chat", "x", "--to", "a@b.c"}, 2, "--to is for email channels"},
		{"not a url", []string{"channels", "create", "webhook", "x"}, 1, "body.config_json.url"},
		{`{"url": "https://example.com", "token": 1}`, []string{"channels", "create", "webhook", "x", "--config", "-"}, 1, "body.config_json.token"},
		{"", []string{"alerts", "create", "on_sla_breach"}, 1, "body.sla_seconds"},
		{"", []string{"alerts", "create", "on_sla_breach", "--sla", "1500ms"}, 2, "whole seconds"},
		{"", []string{"alerts", "test", "none"}, 6, "there is no alert rule none"},
	} {
		got := u.run(test.stdin, test.args...)
		assert.Equal(t, test.code, got.code, "%v: %s", test.args, got.err)
		assert.Contains(t, got.err, test.says, "%v", test.args)
	}
	u.must("alerts", "delete", rule)
	u.must("channels", "delete", channel)
	assert.NotContains(t, u.must("channels", "list"), channel)
	assert.Contains(t, u.must("channels", "list"), strings.Fields(mail)[0])
}
