package alert_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gosmtp "github.com/emersion/go-smtp"
	"github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/kit/outbound"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/mail/mailtest"
	"millrace/shared/platform/mail/smtp"
	"millrace/shared/platform/vault"
	"millrace/shared/platform/vault/keyfile"
	"millrace/shared/run/alert"
)

var update = flag.Bool("update", false, "write the golden files anew")

// now is the time of the messages, and that of the clock.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

var atNow = clock.Func(func() time.Time { return now })

func testVault(t testing.TB) vault.Vault {
	t.Helper()
	v, err := keyfile.Open(filepath.Join(t.TempDir(), "vault.key"))
	require.NoError(t, err)
	return v
}

// channel returns a sealed channel.
func channel(t *testing.T, v vault.Vault, channelType, config string) *alert.Channel {
	t.Helper()
	parsed, err := alert.ParseConfig(channelType, &config)
	require.NoError(t, err)
	c := &alert.Channel{Org: "org_1", ChannelID: "chn_1", Type: channelType, Enabled: true}
	require.NoError(t, c.Seal(t.Context(), v, parsed))
	return c
}

// receiver is a server that keeps what it received.
type receiver struct {
	*httptest.Server
	mu   sync.Mutex
	all  []*http.Request
	body []string
}

// receive starts a receiver that answers by h, nil: 200.
func receive(t *testing.T, h http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		r.all, r.body = append(r.all, req), append(r.body, string(body))
		r.mu.Unlock()
		if h != nil {
			h(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

func sender(t *testing.T, v vault.Vault) *alert.Sender {
	t.Helper()
	client, err := outbound.NewClient(outbound.Policy{Loopback: true})
	require.NoError(t, err)
	t.Cleanup(client.CloseIdleConnections)
	return &alert.Sender{Client: client, Vault: v, Clock: atNow, Links: "https://millrace.example"}
}

// messages returns a message of every kind by name.
func messages() map[string]alert.Message {
	run := alert.Run{
		RunID: "01JKRUN0000000000000000001", RunSlug: "calm-blue-otter-7", FlowName: "daily-sales", FlowVersion: "3", Environment: "production",
		Status: "FAILED", ErrorMessage: new("load failed:\n<connection> refused & \"lost\""),
		StartedAt: new("2026-03-04T05:00:00.000Z"), EndedAt: new("2026-03-04T05:06:00.000Z"),
	}
	message := func(trigger alert.Trigger, change func(*alert.Message)) alert.Message {
		m := alert.Message{
			ID: "msg_1", Org: "org_1", At: now, Run: run,
			Rule: alert.Rule{RuleID: string(trigger) + "_01JK", Name: "Sales <ops>", Trigger: trigger},
		}
		change(&m)
		return m
	}
	return map[string]alert.Message{
		"failed": message(alert.OnFailure, func(*alert.Message) {}),
		"succeeded": message(alert.OnSuccess, func(m *alert.Message) {
			m.Run.Status, m.Run.ErrorMessage = "SUCCEEDED", nil
		}),
		"sla breached": message(alert.OnSLABreach, func(m *alert.Message) {
			m.Run.Status, m.Run.ErrorMessage, m.Run.EndedAt, m.Rule.SLASeconds = "RUNNING", nil, nil, new(int64(300))
		}),
		"retried": message(alert.OnRetry, func(m *alert.Message) {
			m.Run.Status, m.Run.ErrorMessage, m.Run.EndedAt = "RUNNING", nil, nil
			m.Task = &alert.Task{TaskName: "load", MapIndex: new(4), Attempt: 1, ErrorType: "TaskFailedError", ErrorMessage: "connection reset"}
		}),
		"resolved": message(alert.OnFailure, func(m *alert.Message) {
			m.Resolved, m.Run.Status, m.Run.ErrorMessage = true, "SUCCEEDED", nil
		}),
		"test of failures":  alert.Sample("test_1", "org_1", alert.Rule{RuleID: "on_failure_01JK", Name: "Sales", Trigger: alert.OnFailure, FlowName: new("etl")}, now),
		"test of successes": alert.Sample("test_2", "org_1", alert.Rule{RuleID: "on_success_01JK", Name: "Sales", Trigger: alert.OnSuccess}, now),
		"test of breaches":  alert.Sample("test_3", "org_1", alert.Rule{RuleID: "on_sla_breach_01JK", Name: "Sales", Trigger: alert.OnSLABreach, SLASeconds: new(int64(300))}, now),
		"test of retries":   alert.Sample("test_4", "org_1", alert.Rule{RuleID: "on_retry_01JK", Name: "Sales", Trigger: alert.OnRetry}, now),
	}
}

// golden compares what was received with a file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "%s is out of date: run with -update", path)
}

// inOrder returns the names of the messages.
func inOrder() []string {
	var names []string
	for name := range messages() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// TestPayloads sends a message of every kind to a server of every kind, and
// compares what it received with the golden files.
func TestPayloads(t *testing.T) {
	t.Parallel()
	for channelType, config := range map[string]string{
		"chat":     `{"webhook_url": "%s/services/T0/B0/x"}`,
		"webhook":  `{"url": "%s/hook?team=ops", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "headers": {"Authorization": "Bearer x", "X-Team": "ops"}}`,
		"incident": `{"routing_key": "0123456789abcdef", "url": "%s/v2/enqueue"}`,
	} {
		t.Run(channelType, func(t *testing.T) {
			t.Parallel()
			v := testVault(t)
			var out bytes.Buffer
			for _, name := range inOrder() {
				server := receive(t, nil)
				result := sender(t, v).Send(t.Context(), channel(t, v, channelType, fmt.Sprintf(config, server.URL)), messages()[name])
				require.Equal(t, alert.StatusDelivered, result.Status, result.Detail)
				fmt.Fprintf(&out, "== %s\n", name)
				for i, req := range server.all {
					fmt.Fprintf(&out, "%s %s\n", req.Method, req.URL)
					for _, header := range []string{"Authorization", "Content-Type", "User-Agent", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp", "X-Team"} {
						if value := req.Header.Get(header); value != "" {
							fmt.Fprintf(&out, "%s: %s\n", header, value)
						}
					}
					var body bytes.Buffer
					require.NoError(t, json.Indent(&body, []byte(server.body[i]), "", "  "))
					fmt.Fprintf(&out, "\n%s\n", body.String())
				}
				fmt.Fprintln(&out)
			}
			golden(t, channelType+".txt", out.String())
		})
	}
}

func TestMail(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	var out bytes.Buffer
	for _, name := range inOrder() {
		var server mailtest.Server
		server.Start(t)
		s := sender(t, v)
		var err error
		s.Mail, err = smtp.New(smtp.Config{URL: "smtp://" + server.Addr(), From: "Millrace <alerts@example.com>", Clock: atNow})
		require.NoError(t, err)
		result := s.Send(t.Context(), channel(t, v, "email", `{"to": ["ann@example.com", "bob@example.com"]}`), messages()[name])
		require.Equal(t, alert.StatusDelivered, result.Status, result.Detail)
		fmt.Fprintf(&out, "== %s\n", name)
		for _, raw := range server.Raw() {
			assert.NotRegexp(t, `[^\r\n\t -~]`, raw.Data, "mail has 7 bits")
			m := raw.Parse(t)
			fmt.Fprintf(&out, "From: %s\nTo: %s\nSubject: %s\n\n%s\n", m.From, strings.Join(m.To, ", "), m.Subject, m.Text)
		}
		fmt.Fprintln(&out)
	}
	golden(t, "email.txt", out.String())
}

// TestMailHasNoForeignHeaders sends what users control with line breaks.
func TestMailHasNoForeignHeaders(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	var server mailtest.Server
	server.Start(t)
	s := sender(t, v)
	var err error
	s.Mail, err = smtp.New(smtp.Config{URL: "smtp://" + server.Addr(), From: "alerts@example.com", Clock: atNow})
	require.NoError(t, err)
	m := messages()["failed"]
	const evil = "x\r\nBcc: eve@example.com\r\n\r\nbody\r\n.\r\nMAIL FROM:<eve@example.com>\u2028é"
	m.Run.FlowName, m.Run.Status, m.Run.ErrorMessage, m.Rule.Name, m.Run.RunSlug = evil, evil, new(evil), evil, evil
	result := s.Send(t.Context(), channel(t, v, "email", `{"to": ["ann@example.com"]}`), m)
	require.Equal(t, alert.StatusDelivered, result.Status, result.Detail)
	require.Len(t, server.Raw(), 1)
	head, _, _ := strings.Cut(server.Raw()[0].Data, "\r\n\r\n")
	assert.NotContains(t, head, "\r\nBcc")
	assert.Equal(t, []string{"ann@example.com"}, server.Raw()[0].To)
	got := server.Raw()[0].Parse(t)
	assert.Contains(t, got.Subject, "x Bcc: eve@example.com body . MAIL FROM:<eve@example.com> é")
}

func TestMailServerThatRefuses(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	c := channel(t, v, "email", `{"to": ["ann@example.com"]}`)
	s := sender(t, v)
	assert.Equal(t, alert.Result{Status: "failed", Detail: "no mail server is set"}, s.Send(t.Context(), c, messages()["failed"]))
	for code, retryable := range map[int]bool{451: true, 550: false} {
		server := mailtest.Server{Refuse: func(string) error { return &gosmtp.SMTPError{Code: code, Message: "no thanks"} }}
		server.Start(t)
		var err error
		s.Mail, err = smtp.New(smtp.Config{URL: "smtp://" + server.Addr(), From: "alerts@example.com", Clock: atNow})
		require.NoError(t, err)
		got := s.Send(t.Context(), c, messages()["failed"])
		assert.Equal(t, alert.StatusFailed, got.Status)
		assert.Equal(t, retryable, got.Retryable, "%d: %s", code, got.Detail)
	}
}

// TestSignatureIsVerified verifies messages as a receiver does, by the library
// of Standard Webhooks.
func TestSignatureIsVerified(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	for _, secret := range []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "correct horse battery staple", ""} {
		server := receive(t, nil)
		config := fmt.Sprintf(`{"url": %q}`, server.URL)
		if secret != "" {
			config = fmt.Sprintf(`{"url": %q, "secret": %q}`, server.URL, secret)
		}
		c := channel(t, v, "webhook", config)
		for range 2 { // the second is a repetition
			require.Equal(t, alert.StatusDelivered, sender(t, v).Send(t.Context(), c, messages()["failed"]).Status)
		}
		header := server.all[0].Header
		assert.Equal(t, header.Get("Webhook-Id"), server.all[1].Header.Get("Webhook-Id"))
		assert.Equal(t, fmt.Sprint(now.Unix()), header.Get("Webhook-Timestamp"))
		if secret == "" {
			assert.Empty(t, header.Get("Webhook-Signature"))
			continue
		}
		hook, err := standardwebhooks.NewWebhookRaw([]byte(secret))
		if strings.HasPrefix(secret, "whsec_") {
			hook, err = standardwebhooks.NewWebhook(secret)
		}
		require.NoError(t, err)
		require.NoError(t, hook.VerifyIgnoringTimestamp([]byte(server.body[0]), header))
		require.Error(t, hook.VerifyIgnoringTimestamp([]byte(server.body[0]+" "), header))
	}
}
