package ses_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sesv2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/shared/platform/mail"
	"millrace/shared/platform/mail/mailtest"
	"millrace/shared/platform/mail/ses"
)

func TestMain(m *testing.M) {
	defer emulators.StopAll()
	m.Run()
}

func open(t *testing.T, from string, base aws.Config) *ses.Sender {
	t.Helper()
	s, err := ses.New(ses.Config{From: from, AWS: func(context.Context) (aws.Config, error) { return base, nil }})
	require.NoError(t, err)
	return s
}

func identity(t *testing.T, base aws.Config, name string) {
	t.Helper()
	_, err := sesv2.NewFromConfig(base).CreateEmailIdentity(t.Context(), &sesv2.CreateEmailIdentityInput{EmailIdentity: &name})
	require.NoError(t, err)
}

// sent returns moto's messages with a word in their subject.
func sent(t *testing.T, url, word string) (out []mailtest.Received) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/moto-api/data.json", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	var data struct {
		SES struct {
			Message []struct {
				Source, Subject, Body string
				Destinations          json.RawMessage // Python's or JSON's
			}
		} `json:"ses"`
	}
	require.NoError(t, json.NewDecoder(res.Body).Decode(&data))
	for _, m := range data.SES.Message {
		if !strings.Contains(m.Subject, word) {
			continue
		}
		var to struct{ ToAddresses []string }
		text := strings.NewReplacer(`'`, `"`, `\"`, `"`).Replace(strings.Trim(string(m.Destinations), `"`))
		require.NoError(t, json.Unmarshal([]byte(text), &to), "%s", m.Destinations)
		out = append(out, mailtest.Received{From: m.Source, To: to.ToAddresses, Subject: m.Subject, Text: m.Body})
	}
	return out
}

func TestConformance(t *testing.T) {
	t.Parallel()
	endpoint := emulators.SES(t)
	identity(t, endpoint.Config(), mailtest.From)
	mailtest.Exercise(t, func(t *testing.T) (mail.Sender, func(*testing.T, string) []mailtest.Received) {
		return open(t, mailtest.From, endpoint.Config()), func(t *testing.T, word string) []mailtest.Received {
			return sent(t, endpoint.URL, word)
		}
	})
}

func TestIdentityThatIsNotVerifiedIsRefused(t *testing.T) {
	t.Parallel()
	s := open(t, "Millrace <unknown@elsewhere.example>", emulators.SES(t).Config())
	err := s.Send(t.Context(), mail.Message{To: []string{"ann@example.com"}, Subject: "unverified-1", Text: "x"})
	require.ErrorIs(t, err, mail.ErrRefused)
	assert.ErrorContains(t, err, "not verified")
}

// TestErrors checks which answers of SES are final.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		code   string
		want   error
	}{
		{400, "BadRequestException", mail.ErrRefused},
		{400, "MessageRejected", mail.ErrRefused},
		{400, "MailFromDomainNotVerifiedException", mail.ErrRefused},
		{403, "AccessDeniedException", mail.ErrRefused},
		{400, "SendingPausedException", mail.ErrUnavailable},
		{400, "LimitExceededException", mail.ErrUnavailable},
		{429, "TooManyRequestsException", mail.ErrUnavailable},
		{500, "InternalFailure", mail.ErrUnavailable},
		{503, "ServiceUnavailable", mail.ErrUnavailable},
	} {
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			calls++
			w.Header().Set("X-Amzn-ErrorType", c.code)
			w.WriteHeader(c.status)
			_, _ = fmt.Fprintf(w, `{"message": "no"}`)
		}))
		base := aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("k", "s", "")}
		err := open(t, mailtest.From, base).Send(t.Context(), mail.Message{To: []string{"ann@example.com"}, Subject: "s", Text: "x"})
		require.ErrorIs(t, err, c.want, c.code)
		assert.ErrorContains(t, err, c.code)
		assert.Equal(t, 1, calls, "only the caller repeats a message")
		server.Close()
		if c.status == 503 {
			err = open(t, mailtest.From, base).Send(t.Context(), mail.Message{To: []string{"ann@example.com"}, Subject: "s", Text: "x"})
			assert.ErrorIs(t, err, mail.ErrUnavailable, "no server")
		}
	}
}

func TestNewRefusesSender(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"", "alerts", "a@b\r\nBcc: c@d"} {
		_, err := ses.New(ses.Config{From: from})
		assert.ErrorIs(t, err, mail.ErrArgument, from)
	}
}
