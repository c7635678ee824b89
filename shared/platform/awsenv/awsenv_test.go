package awsenv_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/awsenv"
)

// environment replaces the SDK's variables for a test.
func environment(t *testing.T, vars map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // restores it
			require.NoError(t, os.Unsetenv(name))
		}
	}
	for name, value := range vars {
		t.Setenv(name, value)
	}
	// Without files: the SDK's own package reads them.
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
}

// TestLoadIsTheDefaultOfTheSDK compares with what the SDK's own package makes of
// the environments of functions.
func TestLoadIsTheDefaultOfTheSDK(t *testing.T) {
	role := map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "session",
	}
	with := func(more ...string) map[string]string {
		out := map[string]string{}
		for name, value := range role {
			out[name] = value
		}
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	for name, vars := range map[string]map[string]string{
		"a role":             role,
		"an account":         with("AWS_ACCOUNT_ID", "123456789012"),
		"another region":     with("AWS_REGION", "", "AWS_DEFAULT_REGION", "us-east-2"),
		"two regions":        with("AWS_DEFAULT_REGION", "us-east-2"),
		"an endpoint":        with("AWS_ENDPOINT_URL", "http://127.0.0.1:4566"),
		"a service's":        with("AWS_ENDPOINT_URL_SECRETS_MANAGER", "http://127.0.0.1:4567"),
		"both kinds of them": with("AWS_ENDPOINT_URL", "http://127.0.0.1:4566", "AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:4568"),
	} {
		t.Run(name, func(t *testing.T) {
			environment(t, vars)
			want, err := config.LoadDefaultConfig(t.Context())
			require.NoError(t, err)
			got, err := awsenv.Load(t.Context())
			require.NoError(t, err)
			assert.Equal(t, credentials(t, want), credentials(t, got))
			assert.Equal(t, dynamodb.NewFromConfig(want).Options().BaseEndpoint, dynamodb.NewFromConfig(got).Options().BaseEndpoint)
			assert.Equal(t, secretsmanager.NewFromConfig(want).Options().BaseEndpoint, secretsmanager.NewFromConfig(got).Options().BaseEndpoint)
			assert.Equal(t, rest(want), rest(got))
		})
	}
}

// rest returns what else the drivers' clients read of a configuration.
func rest(cfg aws.Config) aws.Config {
	return aws.Config{
		Region: cfg.Region, BaseEndpoint: cfg.BaseEndpoint, ClientLogMode: cfg.ClientLogMode,
		RetryMode: cfg.RetryMode, RetryMaxAttempts: cfg.RetryMaxAttempts, AppID: cfg.AppID, AccountIDEndpointMode: cfg.AccountIDEndpointMode,
		RequestChecksumCalculation: cfg.RequestChecksumCalculation, ResponseChecksumValidation: cfg.ResponseChecksumValidation,
	}
}

func credentials(t *testing.T, cfg aws.Config) aws.Credentials {
	t.Helper()
	out, err := cfg.Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	out.Source = ""
	return out
}

// TestLostConnectionIsReplaced sends a request by a connection that nobody
// answers, and that nobody closes.
func TestLostConnectionIsReplaced(t *testing.T) {
	environment(t, map[string]string{"AWS_ENDPOINT_URL": "http://lost.test", "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"})
	for name, c := range map[string]struct {
		answer time.Duration // of the first connection; 0: never
		took   time.Duration // at most
		dials  int
	}{
		"lost": {0, 30 * time.Second, 2},
		"slow": {20 * time.Second, 20 * time.Second, 1}, // a long poll
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, err := awsenv.Load(t.Context())
				require.NoError(t, err)
				dials := 0
				cfg.HTTPClient = cfg.HTTPClient.(*awshttp.BuildableClient).WithTransportOptions(func(tr *http.Transport) {
					tr.DisableKeepAlives = true
					tr.DialContext = func(context.Context, string, string) (net.Conn, error) {
						dials++
						ours, theirs := net.Pipe()
						go answer(theirs, dials == 1 && c.answer == 0, c.answer)
						return ours, nil
					}
				})
				began := time.Now()
				out, err := secretsmanager.NewFromConfig(cfg).GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String("x")})
				require.NoError(t, err)
				assert.Equal(t, "it", *out.SecretString)
				assert.LessOrEqual(t, time.Since(began), c.took)
				assert.Equal(t, c.dials, dials)
			})
		})
	}
}

// answer answers the request of a connection, late or never.
func answer(c net.Conn, never bool, after time.Duration) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, req.Body) // the client may have left
	if never {
		_, _ = io.Copy(io.Discard, c) // until the client leaves
		return
	}
	time.Sleep(after)
	const body = `{"SecretString":"it"}`
	_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body) // the client may have left
	_ = c.Close()
}

func TestRequestWithoutCredentialsFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request was sent")
	}))
	defer server.Close()
	for _, vars := range []map[string]string{{}, {"AWS_ACCESS_KEY_ID": "key"}, {"AWS_SECRET_ACCESS_KEY": "secret"}} {
		vars["AWS_ENDPOINT_URL"], vars["AWS_REGION"] = server.URL, "eu-west-1"
		environment(t, vars)
		cfg, err := awsenv.Load(t.Context())
		require.NoError(t, err)
		_, err = secretsmanager.NewFromConfig(cfg).GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String("x")})
		assert.ErrorIs(t, err, awsenv.ErrNoCredentials)
	}
}
