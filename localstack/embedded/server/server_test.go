package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/embedded/server"
	"millrace/localstack/embedded/signin"
)

// serve runs a server until the test ends. A process can run one at a time,
// because its object store changes the working directory, so these tests are
// not parallel.
func serve(t *testing.T, change func(*server.Config)) (*server.Server, signin.Credentials) {
	t.Helper()
	cfg := server.Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Version: "1.2.3", NoTick: true,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	}
	if change != nil {
		change(&cfg)
	}
	s, err := server.Open(t.Context(), cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return s, s.Credentials()
}

type answer struct {
	status int
	header http.Header
	body   string
}

func post(t *testing.T, url, body string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return answer{res.StatusCode, res.Header, string(data)}
}

func sample(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "events", "samples", name+".json"))
	require.NoError(t, err)
	return string(data)
}

// root is the module's directory, determined before a server changes the
// working directory.
var root = func() string {
	dir, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}()

func TestEveryFunctionCanBeInvoked(t *testing.T) {
	_, c := serve(t, nil)
	payloads := map[string][]string{
		"scheduler-tick":   {"scheduler-tick"},
		"audit-digest":     {"due-audit-digest"},
		"backfills-due":    {"due-backfill"},
		"backfills-events": {"bus-backfills-events"},
		"retention":        {"due-retention"},
		"schedules-due":    {"due-schedule"},
		"object-events":    {"object-created"},
		"sensors-poll":     {"due-sensor"},
		"dispatch":         {"run-look"},
		"notifier":         {"bus-alert-run-finished", "bus-task-retried"},
		"notifier-due":     {"due-alert-delivery", "due-alert-sla"},
		"taskworker":       {"run-look", "run-start", "run-task", "run-walk"},
	}
	ops := catalog.Operations(catalog.All())
	for _, spec := range catalog.All() {
		url := c.BaseURL + "/2015-03-31/functions/" + spec.Name + "/invocations"
		if spec.Routes == nil {
			require.NotEmpty(t, payloads[spec.Name], "no sample invokes %s", spec.Name)
			for _, name := range payloads[spec.Name] {
				got := post(t, url, sample(t, name), "Authorization", "Bearer "+c.LocalSecret)
				assert.Equal(t, http.StatusOK, got.status, "%s with %s", spec.Name, name)
				assert.Empty(t, got.header.Get("X-Amz-Function-Error"), "%s with %s: %s", spec.Name, name, got.body)
			}
			continue
		}
		for _, op := range ops {
			if op.Function != spec.Name {
				continue
			}
			var request any = lambda.APIGatewayProxyRequest{HTTPMethod: op.Method, Path: op.Path}
			if spec.Trigger.OwnURL {
				own := lambda.APIGatewayV2HTTPRequest{RawPath: op.Path}
				own.RequestContext.HTTP.Method = op.Method
				request = own
			}
			event, err := json.Marshal(request)
			require.NoError(t, err)
			got := post(t, url, string(event), "Authorization", "Bearer "+c.LocalSecret)
			var out lambda.APIGatewayProxyResponse
			require.NoError(t, json.Unmarshal([]byte(got.body), &out), "%s", got.body)
			if op.Access.IsPublic() { // it checks the request itself
				assert.Contains(t, []int{http.StatusOK, http.StatusFound, http.StatusUnauthorized, http.StatusNotFound, http.StatusUnprocessableEntity}, out.StatusCode,
					"%s %s of %s: %s", op.Method, op.Path, spec.Name, out.Body)
				continue
			}
			assert.Equal(t, http.StatusUnauthorized, out.StatusCode, "%s %s of %s: %s", op.Method, op.Path, spec.Name, out.Body)
		}
	}

	// A function serves only its own operations, with a credential.
	event := `{"httpMethod": "GET", "path": "/me", "headers": {"Authorization": "Bearer ` + c.APIKey + `"}}`
	for name, status := range map[string]int{"auth": http.StatusOK, "health": http.StatusNotFound} {
		var out lambda.APIGatewayProxyResponse
		got := post(t, c.BaseURL+"/2015-03-31/functions/"+name+"/invocations", event, "Authorization", "Bearer "+c.LocalSecret)
		require.NoError(t, json.Unmarshal([]byte(got.body), &out))
		assert.Equal(t, status, out.StatusCode, "%s: %s", name, out.Body)
	}
}

func TestInvokeRespondsLikeLambda(t *testing.T) {
	_, c := serve(t, nil)
	functions := c.BaseURL + "/2015-03-31/functions/"
	tick := sample(t, "scheduler-tick")
	cases := map[string]struct {
		name, payload, kind string
		status              int
		body                string // part of it
		fault, kindOfError  string // X-Amz-Function-Error, X-Amzn-Errortype
	}{
		"answer":          {"scheduler-tick", tick, "", 200, `"status":"processed"`, "", ""},
		"by ARN":          {"arn:aws:lambda:local:000000000000:function:scheduler-tick:$LATEST", tick, "RequestResponse", 200, "processed", "", ""},
		"dry run":         {"scheduler-tick", tick, "DryRun", 204, "", "", ""},
		"event":           {"scheduler-tick", tick, "Event", 202, "", "", ""},
		"failure":         {"scheduler-tick", `{"event_type": "other"}`, "", 200, `"errorMessage"`, "Unhandled", ""},
		"no payload":      {"scheduler-tick", "", "", 200, `"errorType":"Error"`, "Unhandled", ""},
		"no proxy event":  {"health", `{"path": "/health"}`, "", 200, "httpMethod and path are required", "Unhandled", ""},
		"no batch":        {"taskworker", `{"Records": 1}`, "", 200, "not an SQS event", "Unhandled", ""},
		"unknown":         {"nothing", "{}", "", 404, "Function not found", "", "ResourceNotFoundException"},
		"no JSON":         {"scheduler-tick", "{", "", 400, "Could not parse", "", "InvalidRequestContentException"},
		"wrong type":      {"scheduler-tick", "{}", "Maybe", 400, "Invocation type", "", "InvalidParameterValueException"},
		"too large":       {"scheduler-tick", `"` + strings.Repeat("a", 6<<20) + `"`, "", 413, "6291456 bytes", "", "RequestTooLargeException"},
		"too large event": {"scheduler-tick", `"` + strings.Repeat("a", 1<<20) + `"`, "Event", 413, "1048576 bytes", "", "RequestTooLargeException"},
	}
	for name, tc := range cases {
		got := post(t, functions+tc.name+"/invocations", tc.payload, "X-Amz-Invocation-Type", tc.kind, "Authorization", "Bearer "+c.LocalSecret)
		assert.Equal(t, tc.status, got.status, "%s: %s", name, got.body)
		assert.Contains(t, got.body, tc.body, name)
		assert.Equal(t, tc.fault, got.header.Get("X-Amz-Function-Error"), name)
		assert.Equal(t, tc.kindOfError, got.header.Get("X-Amzn-Errortype"), name)
		assert.NotEmpty(t, got.header.Get("X-Amzn-Requestid"), name)
	}
}

func TestDiscovery(t *testing.T) {
	_, c := serve(t, nil)
	for path, want := range map[string]string{
		"/.well-known/openid-configuration": `"issuer":"` + c.BaseURL + `"`,
		"/.well-known/jwks.json":            `"OKP"`,
		"/openapi.json":                     `"operationId":"runs-create"`,
		"/docs":                             `<script src="./docs/`,
		"/":                                 `<script src="./docs/`,
		"/health":                           `"version":"1.2.3"`,
	} {
		res, err := http.Get(c.BaseURL + path)
		require.NoError(t, err)
		data, err := io.ReadAll(res.Body)
		require.NoError(t, errors.Join(err, res.Body.Close()))
		assert.Equal(t, http.StatusOK, res.StatusCode, path)
		assert.Contains(t, string(data), want, path)
	}
}

func TestSecondServerFailsAndFirstStopsCleanly(t *testing.T) {
	dir := t.TempDir()
	cfg := server.Config{Dir: dir, Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	first, err := server.Open(t.Context(), cfg)
	require.NoError(t, err)
	_, err = server.Open(t.Context(), cfg)
	require.ErrorIs(t, err, server.ErrInUse)
	require.NoError(t, first.Close(), "a server that does not serve can be closed")
	require.NoError(t, first.Close())

	ctx, stop := context.WithCancel(t.Context())
	again, err := server.Open(t.Context(), cfg)
	require.NoError(t, err)
	assert.Equal(t, first.Credentials().APIKey, again.Credentials().APIKey)
	stop()
	begin := time.Now()
	require.NoError(t, again.Serve(ctx))
	assert.Less(t, time.Since(begin), 5*time.Second, "nothing is in flight")
	for name, mode := range map[string]os.FileMode{".": 0o700, "credentials.json": 0o600, "secrets.json": 0o600, "signin.key": 0o600} {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		if name != "." { // created by the test
			assert.Equal(t, mode, info.Mode().Perm(), name)
		}
	}
}

func TestInvalidConfigIsRejected(t *testing.T) {
	for want, change := range map[string]func(*server.Config){
		"data directory is required":     func(c *server.Config) { c.Dir = "" },
		`"8080" is not host:port`:        func(c *server.Config) { c.Listen = "8080" },
		`"9000" is not host:port`:        func(c *server.Config) { c.S3Listen = "9000" },
		`"10.0.0.0" is not a CIDR range`: func(c *server.Config) { c.AllowRanges = []string{"10.0.0.0"} },
		`unknown limit "apples"`:         func(c *server.Config) { c.Limits = []string{"apples=1"} },
		"Python interpreters is negat":   func(c *server.Config) { c.PythonSlots = -1 },
		"not a valid email":              func(c *server.Config) { c.SuperAdmins = []string{"nobody"} },
	} {
		cfg := server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
		change(&cfg)
		_, err := server.Open(t.Context(), cfg)
		assert.ErrorContains(t, err, want)
	}
}
