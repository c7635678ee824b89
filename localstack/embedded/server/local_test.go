package server_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/signin"
)

const tickEvent = `{"event_type": "scheduler_tick"}`

// addresses returns the server's addresses: loopback, and another one if the
// machine has one.
func addresses(t *testing.T, port string) []string {
	t.Helper()
	out := []string{"http://" + net.JoinHostPort("127.0.0.1", port)}
	known, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range known {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			return append(out, "http://"+net.JoinHostPort(ip.IP.String(), port))
		}
	}
	return out
}

// TestLocalRoutesRequireSecret checks that nothing in a request about its
// origin replaces the secret, and that no web page gets access with it.
func TestLocalRoutesRequireSecret(t *testing.T) {
	_, c := serve(t, func(cfg *server.Config) { cfg.Listen = "0.0.0.0:0" })
	base, err := url.Parse(c.BaseURL)
	require.NoError(t, err)
	bases := addresses(t, base.Port())

	// nginx's proxy_pass sends the upstream's name as Host, and no
	// X-Forwarded-For.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(base) }})
	defer proxy.Close()
	bases = append(bases, proxy.URL)

	paths := map[string]string{
		"/_local/sign-in": `{"email": "` + c.Email + `"}`,
		"/_local/backup":  `{"directory": "relative"}`,
		"/_local/nothing": "{}",
		"/2015-03-31/functions/scheduler-tick/invocations": tickEvent,
	}
	right := map[string]int{"/_local/sign-in": 200, "/_local/backup": 422, "/_local/nothing": 404,
		"/2015-03-31/functions/scheduler-tick/invocations": 200}
	wrong := [][]string{
		nil,
		{"Authorization", "Bearer " + c.LocalSecret[1:]},
		{"Authorization", "Bearer " + c.APIKey},
		{"Authorization", "Bearer " + c.AWSSecretAccessKey},
		{"Authorization", "Basic " + c.LocalSecret},
		{"X-Forwarded-For", "127.0.0.1"},
		{"Forwarded", "for=127.0.0.1"},
		{"X-Real-IP", "127.0.0.1"},
		{"Host", "localhost:" + base.Port()},
		{"Sec-Fetch-Site", "same-origin"},
	}
	for path, body := range paths {
		for _, from := range bases {
			for _, header := range wrong {
				got := post(t, from+path, body, header...)
				require.Equal(t, http.StatusUnauthorized, got.status, "%s%s %v: %s", from, path, header, got.body)
				var answer struct{ Detail string }
				require.NoError(t, json.Unmarshal([]byte(got.body), &answer))
				assert.Contains(t, answer.Detail, "credentials.json in the server's data directory", "%s %v", path, header)
				assert.Contains(t, got.header.Get("WWW-Authenticate"), "Bearer")
				assert.NotContains(t, got.body, "id_token")
			}
			got := post(t, from+path, body, "Authorization", "Bearer "+c.LocalSecret)
			assert.Equal(t, right[path], got.status, "%s%s: %s", from, path, got.body)
			assert.Equal(t, http.StatusUnauthorized, post(t, from+path+"?local_secret="+c.LocalSecret, body).status, "no credential in a URL")
		}
		for _, page := range [][]string{{"Host", "rebound.example.com"}, {"Origin", "https://example.com"}, {"Sec-Fetch-Site", "cross-site"}} {
			got := post(t, c.BaseURL+path, body, append(page, "Authorization", "Bearer "+c.LocalSecret)...)
			assert.Equal(t, http.StatusForbidden, got.status, "%s %v", path, page)
		}
	}
}

// invoke calls scheduler-tick as a program with the AWS SDK does.
func invoke(t *testing.T, c signin.Credentials, id, secret string, change func(*lambda.Options)) (*lambda.InvokeOutput, error) {
	t.Helper()
	client := lambda.New(lambda.Options{
		BaseEndpoint: &c.BaseURL, Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider(id, secret, ""),
		Retryer: aws.NopRetryer{},
	}, change)
	return client.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: aws.String("scheduler-tick"), Payload: []byte(tickEvent)})
}

// later signs with a shifted time, whatever the SDK knows of the server's
// clock.
type later struct{ by time.Duration }

// SignHTTP implements lambda.HTTPSignerV4.
func (l later) SignHTTP(ctx context.Context, keys aws.Credentials, r *http.Request, hash, service, region string, _ time.Time, options ...func(*v4.SignerOptions)) error {
	return v4.NewSigner().SignHTTP(ctx, keys, r, hash, service, region, time.Now().Add(l.by), options...)
}

// tampering changes the body of a signed request.
type tampering struct{}

// Do implements lambda.HTTPClient.
func (tampering) Do(r *http.Request) (*http.Response, error) {
	changed, err := http.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), strings.NewReader(strings.Replace(tickEvent, "_", "-", 1)))
	if err != nil {
		return nil, err
	}
	changed.Header = r.Header
	return http.DefaultClient.Do(changed)
}

func TestInvokeAcceptsSignedCalls(t *testing.T) {
	_, c := serve(t, nil)
	for name, tc := range map[string]struct {
		id, secret string
		change     func(*lambda.Options)
		kind       string
	}{
		"right":         {c.AWSAccessKeyID, c.AWSSecretAccessKey, func(*lambda.Options) {}, ""},
		"14 min ago":    {c.AWSAccessKeyID, c.AWSSecretAccessKey, func(o *lambda.Options) { o.HTTPSignerV4 = later{-14 * time.Minute} }, ""},
		"16 min ago":    {c.AWSAccessKeyID, c.AWSSecretAccessKey, func(o *lambda.Options) { o.HTTPSignerV4 = later{-16 * time.Minute} }, "InvalidSignatureException"},
		"in 16 min":     {c.AWSAccessKeyID, c.AWSSecretAccessKey, func(o *lambda.Options) { o.HTTPSignerV4 = later{16 * time.Minute} }, "InvalidSignatureException"},
		"tampered body": {c.AWSAccessKeyID, c.AWSSecretAccessKey, func(o *lambda.Options) { o.HTTPClient = tampering{} }, "InvalidSignatureException"},
		"other secret":  {c.AWSAccessKeyID, c.LocalSecret, func(*lambda.Options) {}, "InvalidSignatureException"},
		"other key":     {"AKIAIOSFODNN7EXAMPLE", c.AWSSecretAccessKey, func(*lambda.Options) {}, "UnrecognizedClientException"},
	} {
		out, err := invoke(t, c, tc.id, tc.secret, tc.change)
		if tc.kind == "" {
			require.NoError(t, err, name)
			assert.Contains(t, string(out.Payload), `"status":"processed"`, name)
			continue
		}
		var refused *smithyhttp.ResponseError
		require.ErrorAs(t, err, &refused, name)
		assert.Equal(t, http.StatusUnauthorized, refused.HTTPStatusCode(), name)
		var api smithy.APIError
		require.ErrorAs(t, err, &api, name)
		assert.Equal(t, tc.kind, api.ErrorCode(), "%s: %s", name, api.ErrorMessage())
		assert.NotContains(t, err.Error(), c.AWSSecretAccessKey)
	}
}
