package alert_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/shared/kit/outbound/outboundtest"
	"millrace/shared/platform/vault"
	"millrace/shared/run/alert"
)

func TestAnswersAreJudged(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	for _, test := range []struct {
		status     int
		retryAfter string
		body       string
		want       alert.Result // with the details after the host
	}{
		{200, "", "ok", alert.Result{Status: "delivered", Detail: "200"}},
		{202, "60", "", alert.Result{Status: "delivered", Detail: "202"}},
		{301, "", "", alert.Result{Status: "failed", Detail: "301: redirects are not followed; give the channel the URL that it leads to"}},
		{400, "", "invalid\n\t payload\x00", alert.Result{Status: "failed", Detail: "400: invalid payload"}},
		{401, "", "", alert.Result{Status: "failed", Detail: "401"}},
		{404, "60", "no_service", alert.Result{Status: "failed", Detail: "404: no_service"}},
		{408, "", "", alert.Result{Status: "failed", Detail: "408", Retryable: true}},
		{410, "", "", alert.Result{Status: "failed", Detail: "410"}},
		{429, "", "", alert.Result{Status: "failed", Detail: "429", Retryable: true}},
		{429, "90", "", alert.Result{Status: "failed", Detail: "429", Retryable: true, RetryAfter: 90 * time.Second}},
		{429, "Wed, 04 Mar 2026 05:07:07 GMT", "", alert.Result{Status: "failed", Detail: "429", Retryable: true, RetryAfter: time.Minute}},
		{429, "Wed, 04 Mar 2020 05:07:07 GMT", "", alert.Result{Status: "failed", Detail: "429", Retryable: true}},
		{429, "99999999", "", alert.Result{Status: "failed", Detail: "429", Retryable: true, RetryAfter: 24 * time.Hour}},
		{429, "-5", "", alert.Result{Status: "failed", Detail: "429", Retryable: true}},
		{429, "soon", "", alert.Result{Status: "failed", Detail: "429", Retryable: true}},
		{500, "", strings.Repeat("x", 500), alert.Result{Status: "failed", Detail: "500: " + strings.Repeat("x", 200) + "…", Retryable: true}},
		{503, "10", "", alert.Result{Status: "failed", Detail: "503", Retryable: true, RetryAfter: 10 * time.Second}},
	} {
		server := receive(t, func(w http.ResponseWriter, _ *http.Request) {
			if test.retryAfter != "" {
				w.Header().Set("Retry-After", test.retryAfter)
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		})
		test.want.Detail = strings.TrimPrefix(server.URL, "http://") + " answered " + test.want.Detail
		for channelType, config := range map[string]string{"chat": `{"webhook_url": %q}`, "webhook": `{"url": %q}`, "incident": `{"routing_key": "abcdefgh", "url": %q}`} {
			got := sender(t, v).Send(t.Context(), channel(t, v, channelType, fmt.Sprintf(config, server.URL)), messages()["failed"])
			assert.Equal(t, test.want, got, "%s, %d", channelType, test.status)
		}
		assert.Len(t, server.all, 3, "a redirect is not followed")
	}
}

func TestNoAnswerIsRetryable(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	closed := receive(t, nil)
	closed.Close()
	cut := receive(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for _, to := range []string{closed.URL, cut.URL, "https" + strings.TrimPrefix(receive(t, nil).URL, "http")} {
		got := sender(t, v).Send(t.Context(), channel(t, v, "chat", `{"webhook_url": "`+to+`/secretpath"}`), messages()["failed"])
		assert.True(t, got.Retryable, got.Detail)
		assert.Contains(t, got.Detail, "the request failed: ")
		assert.NotContains(t, got.Detail, "secretpath")
	}
}

// hanging is a connection that never answers.
type hanging struct{}

func (hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestSlowReceiverIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := testVault(t)
		s := &alert.Sender{Client: &http.Client{Transport: hanging{}}, Vault: v, Clock: atNow}
		began := time.Now()
		got := s.Send(t.Context(), channel(t, v, "chat", `{"webhook_url": "https://example.com/"}`), messages()["failed"])
		assert.Equal(t, alert.Result{Status: "failed", Detail: "no answer within 10s", Retryable: true}, got)
		assert.Equal(t, alert.Timeout, time.Since(began))
	})
}

// TestSecretsAreNotRepeated answers with everything that the receiver was sent.
func TestSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	server := receive(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(400)
		fmt.Fprintf(w, "%s %s %s %s", r.URL, r.Header.Get("X-Token"), "canary-secret", "canary-routing")
	})
	for channelType, config := range map[string]string{
		"chat":     `{"webhook_url": "%s/canary-path"}`,
		"webhook":  `{"url": "%s/canary-path?canary-query", "secret": "canary-secret", "headers": {"X-Token": "canary-header"}}`,
		"incident": `{"routing_key": "canary-routing", "url": "%s/canary-path"}`,
	} {
		got := sender(t, v).Send(t.Context(), channel(t, v, channelType, fmt.Sprintf(config, server.URL)), messages()["failed"])
		assert.Equal(t, alert.StatusFailed, got.Status)
		assert.Contains(t, got.Detail, " answered 400: *** ")
		assert.NotContains(t, got.Detail, "canary-path")
		if channelType == "webhook" {
			assert.NotRegexp(t, "canary-(query|secret|header)", got.Detail)
		}
		if channelType == "incident" {
			assert.NotContains(t, got.Detail, "canary-routing")
		}
	}
}

// TestRefuses checks that no channel reaches a forbidden address.
func TestRefuses(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	for channelType, config := range map[string]string{
		"chat": `{"webhook_url": %q}`, "webhook": `{"url": %q}`, "incident": `{"routing_key": "abcdefgh", "url": %q}`,
	} {
		t.Run(channelType, func(t *testing.T) {
			t.Parallel()
			outboundtest.Refuses(t, "final: ", func(t *testing.T, client *http.Client, to string) string {
				if u, err := url.Parse(to); err != nil || u.Hostname() == "" {
					return "final: refused when the channel is created"
				}
				s := sender(t, v)
				s.Client = client
				got := s.Send(t.Context(), channel(t, v, channelType, fmt.Sprintf(config, to)), messages()["failed"])
				switch {
				case got.Status == alert.StatusDelivered:
					return ""
				case got.Retryable:
					return "again: " + got.Detail
				}
				return "final: " + got.Detail
			})
		})
	}
}

func TestHelpOfDeniedAddress(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	s := sender(t, v)
	c := channel(t, v, "chat", `{"webhook_url": "http://10.0.0.1/"}`)
	assert.Equal(t, alert.Result{Status: "failed", Detail: "the URL leads to an address that channels may not reach"}, s.Send(t.Context(), c, messages()["failed"]))
	s.Help = "use --allow-range"
	assert.Equal(t, "the URL leads to an address that channels may not reach: use --allow-range", s.Send(t.Context(), c, messages()["failed"]).Detail)
}

// away is a vault whose key cannot be used now.
type away struct{ vault.Vault }

func (away) Open(context.Context, string, string, vault.Sealed) ([]byte, error) {
	return nil, fmt.Errorf("%w: timeout", vault.ErrUnavailable)
}

func TestConfigurationThatDoesNotOpen(t *testing.T) {
	t.Parallel()
	v := testVault(t)
	c := channel(t, v, "chat", `{"webhook_url": "https://example.com/"}`)
	assert.Equal(t, alert.Result{Status: "failed", Detail: "the channel's configuration cannot be opened now", Retryable: true},
		sender(t, away{v}).Send(t.Context(), c, messages()["failed"]))
	moved := *c
	moved.Org = "org_2"
	for name, other := range map[string]*alert.Channel{"of another workspace": &moved, "of another vault": channel(t, testVault(t), "chat", `{"webhook_url": "https://example.com/"}`)} {
		got := sender(t, v).Send(t.Context(), other, messages()["failed"])
		assert.Contains(t, got.Detail, "create the channel anew", name)
		assert.False(t, got.Retryable, name)
	}
}
