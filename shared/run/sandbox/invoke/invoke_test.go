package invoke_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/invoke"
	"millrace/shared/run/sandbox/ticket"
)

var key = bytes.Repeat([]byte{1}, ticket.MinKey)

// answers stands in for Lambda. It gives one response after the other, and the
// last one forever.
type answers struct {
	list     []answer
	requests []*http.Request
	bodies   [][]byte
}

type answer struct {
	status int
	fault  string // X-Amz-Function-Error
	kind   string // X-Amzn-Errortype
	body   string
	err    error
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	next := a.list[min(len(a.requests), len(a.list)-1)]
	a.requests, a.bodies = append(a.requests, r), append(a.bodies, body)
	if next.err != nil {
		return nil, next.err
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if next.fault != "" {
		h.Set("X-Amz-Function-Error", next.fault)
	}
	if next.kind != "" {
		h.Set("X-Amzn-Errortype", next.kind)
	}
	return &http.Response{StatusCode: next.status, Header: h, Request: r,
		Body: io.NopCloser(bytes.NewReader([]byte(next.body))), ContentLength: int64(len(next.body))}, nil
}

func open(t *testing.T, lambda *answers) *invoke.Sandbox {
	t.Helper()
	s, err := invoke.New(invoke.Config{
		Prefix: "sandbox-", LogURL: "https://api.test/logs", Key: key, Clock: clock.System{},
		AWS: func(context.Context) (aws.Config, error) {
			return aws.Config{
				Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""),
				HTTPClient: &http.Client{Transport: lambda},
			}, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// at returns a link to a URL.
func at(url string) sandbox.Link {
	return func(context.Context) (string, error) { return url, nil }
}

func request() sandbox.Request {
	index := 2
	return sandbox.Request{
		Workspace: "org_a", Tier: "small", RunID: "RUN", FlowName: "f", FlowVersion: "1", TaskName: "t",
		TaskRunID: "RUN-7-3", Attempt: 3, MapIndex: &index, Item: json.RawMessage(`{"a":1}`),
		Artifact: sandbox.Artifact{Hash: "h", URL: at("https://s3.test/a")}, Entrypoint: "m:f",
		Inputs:  map[string]sandbox.Input{"up": {Value: json.RawMessage(`[1]`)}, "far": {URL: at("https://s3.test/o")}},
		Params:  map[string]json.RawMessage{"p": json.RawMessage(`12345678901234567890`)},
		Secrets: map[string]string{"token": "hush-hush"}, Timeout: 90 * time.Second, OutputURL: at("https://s3.test/out"),
		TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}
}

func TestRunInvokesFunctionOfTier(t *testing.T) {
	t.Parallel()
	lambda := &answers{list: []answer{{status: 200, body: `{"output": null, "output_bytes": 4}`}}}
	got, err := open(t, lambda).Run(t.Context(), request(), nil)
	require.NoError(t, err)
	assert.Equal(t, sandbox.Result{Output: json.RawMessage(`null`), OutputBytes: 4}, got)
	require.Len(t, lambda.requests, 1)
	r := lambda.requests[0]
	assert.Equal(t, "/2015-03-31/functions/sandbox-small/invocations", r.URL.Path)
	assert.Equal(t, "org_a", r.Header.Get("X-Amz-Tenant-Id"))
	assert.Equal(t, "RequestResponse", r.Header.Get("X-Amz-Invocation-Type"))
	var event struct {
		Token string `json:"token"`
	}
	require.NoError(t, json.Unmarshal(lambda.bodies[0], &event))
	a, err := ticket.Check(key, event.Token, time.Now())
	require.NoError(t, err)
	assert.Equal(t, 7, a.Node)
	assert.Equal(t, "org_a", a.Org)
	assert.Equal(t, 2, *a.MapIndex)
	assert.JSONEq(t, `{"run_id": "RUN", "flow_name": "f", "flow_version": "1", "task_name": "t", "task_run_id": "RUN-7-3",
		"attempt": 3, "map_index": 2, "item": {"a": 1}, "entrypoint": "m:f", "timeout_secs": 90,
		"inputs": {"up": {"value": [1]}, "far": {"url": "https://s3.test/o"}}, "params": {"p": 12345678901234567890},
		"secrets": {"token": "hush-hush"}, "output_url": "https://s3.test/out",
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"artifact": {"hash": "h", "url": "https://s3.test/a"}, "log_url": "https://api.test/logs", "token": "`+event.Token+`"}`,
		string(lambda.bodies[0]))
}

func TestResponses(t *testing.T) {
	t.Parallel()
	greedy := sandbox.Result{Failure: &sandbox.Failure{
		Type: "TaskFailedError", Message: "the task used all of small's 1,024 MB of memory; the next larger tier is execution_mode medium with 2,048 MB",
	}}
	for name, tc := range map[string]struct {
		answer answer
		want   sandbox.Result
		err    string
	}{
		"uploaded":    {answer{status: 200, body: `{"output_ref": true, "output_bytes": 99}`}, sandbox.Result{Uploaded: true, OutputBytes: 99}, ""},
		"failure":     {answer{status: 200, body: `{"failure": {"type": "TaskFailedError", "message": "m"}}`}, sandbox.Result{Failure: &sandbox.Failure{Type: "TaskFailedError", Message: "m"}}, ""},
		"error":       {answer{status: 200, body: `{"error": "the interpreter died: exit status 4"}`}, sandbox.Result{}, "exit status 4"},
		"nothing":     {answer{status: 200, body: `{}`}, sandbox.Result{}, "no output"},
		"no JSON":     {answer{status: 200, body: `oops`}, sandbox.Result{}, "not readable"},
		"crash":       {answer{status: 200, fault: "Unhandled", body: `{"errorType": "Runtime.ExitError", "errorMessage": "RequestId: 1 Error: Runtime exited with error: signal: killed"}`}, greedy, ""},
		"no memory":   {answer{status: 200, fault: "Unhandled", body: `{"errorType": "Runtime.OutOfMemory", "errorMessage": "RequestId: 1"}`}, greedy, ""},
		"greedy task": {answer{status: 200, body: `{"error": "the interpreter died: killed by signal 9", "out_of_memory": true, "task_secs": 3}`}, greedy, ""},
		"time-out":    {answer{status: 200, fault: "Unhandled", body: `{"errorType": "Sandbox.Timedout", "errorMessage": "Task timed out"}`}, sandbox.Result{}, "Sandbox.Timedout"},
		"mute crash":  {answer{status: 200, fault: "Unhandled", body: ``}, sandbox.Result{}, "the sandbox failed"},
		"no function": {answer{status: 404, kind: "ResourceNotFoundException", body: `{"Message": "Function not found"}`}, sandbox.Result{}, "ResourceNotFoundException"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lambda := &answers{list: []answer{tc.answer}}
			got, err := open(t, lambda).Run(t.Context(), request(), nil)
			assert.Equal(t, tc.want, got)
			assert.Len(t, lambda.requests, 1)
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.err)
			assert.NotContains(t, err.Error(), "hush-hush")
			assert.NotContains(t, err.Error(), "s3.test")
		})
	}
}

func TestOnlyUnstartedInvocationIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := answer{status: 429, kind: "TooManyRequestsException", body: `{"Message": "Rate Exceeded."}`}
		lambda := &answers{list: []answer{busy, busy, {status: 200, body: `{"output": 1, "output_bytes": 1}`}}}
		got, err := open(t, lambda).Run(t.Context(), request(), nil)
		require.NoError(t, err)
		assert.JSONEq(t, `1`, string(got.Output))
		assert.Len(t, lambda.requests, 3)

		for _, broken := range []answer{
			{status: 500, kind: "ServiceException", body: `{"Message": "boom"}`},
			{status: 503, body: ``},
			{err: io.ErrUnexpectedEOF},
		} {
			lambda := &answers{list: []answer{broken}}
			_, err := open(t, lambda).Run(t.Context(), request(), nil)
			require.Error(t, err)
			assert.Len(t, lambda.requests, 1, "the task may have run: %+v", broken)
		}
	})
}

func TestStoppedTaskReturnsCauseOfContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lambda := &answers{list: []answer{{status: 200, body: `{"failure": {"type": "Cancelled", "message": "the task was cancelled"}}`}}}
		s := open(t, lambda)
		why := errors.New("fenced")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(why) })
		_, err := s.Run(ctx, request(), nil)
		require.ErrorIs(t, err, why)

		_, err = s.Run(ctx, request(), nil)
		require.ErrorIs(t, err, why)

		begin := time.Now()
		_, err = s.Run(t.Context(), request(), nil)
		require.ErrorContains(t, err, "told to stop")
		assert.Equal(t, 20*time.Second, time.Since(begin))
	})
}

func TestInvocationErrors(t *testing.T) {
	t.Parallel()
	lambda := &answers{list: []answer{{status: 200, body: `{}`}}}
	s := open(t, lambda)
	large := request()
	large.Item = json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), invoke.MaxPayload)) + `"`)
	_, err := s.Run(t.Context(), large, nil)
	require.ErrorContains(t, err, "fit")
	foreign := request()
	foreign.TaskRunID = "OTHER-1-1"
	_, err = s.Run(t.Context(), foreign, nil)
	require.ErrorContains(t, err, "no attempt of run")
	assert.Empty(t, lambda.requests)
	_, err = invoke.New(invoke.Config{Prefix: "p", LogURL: "u", Key: key[1:], Clock: clock.System{},
		AWS: func(context.Context) (aws.Config, error) { return aws.Config{}, nil }})
	require.ErrorContains(t, err, "32 are required")
	_, err = invoke.New(invoke.Config{})
	require.Error(t, err)
}

// TestUnavailable checks that only invocations that cannot have started are
// reported as unavailable, and those that may have as lost.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, test := range map[string]struct {
			answer answer
			is     error
		}{
			"throttled":       {answer{status: 429, kind: "TooManyRequestsException", body: `{"Message": "Rate Exceeded."}`}, sandbox.ErrUnavailable},
			"another limit":   {answer{status: 429, kind: "TenantLimitExceeded", body: `{"Message": "m"}`}, sandbox.ErrUnavailable},
			"EC2 throttled":   {answer{status: 502, kind: "EC2ThrottledException", body: `{"Message": "m"}`}, sandbox.ErrUnavailable},
			"not ready":       {answer{status: 502, kind: "ResourceNotReadyException", body: `{"Message": "m"}`}, sandbox.ErrUnavailable},
			"being updated":   {answer{status: 409, kind: "ResourceConflictException", body: `{"Message": "m"}`}, sandbox.ErrUnavailable},
			"no connection":   {answer{err: &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}}, sandbox.ErrUnavailable},
			"no artifact yet": {answer{status: 200, body: `{"error": "the artifact could not be fetched", "unstarted": true}`}, sandbox.ErrUnavailable},
			"connection lost": {answer{err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}}, sandbox.ErrLost},
			"service":         {answer{status: 500, kind: "ServiceException", body: `{"Message": "boom"}`}, sandbox.ErrLost},
			"gateway":         {answer{status: 503, body: ``}, sandbox.ErrLost},
			"no function":     {answer{status: 404, kind: "ResourceNotFoundException", body: `{"Message": "m"}`}, nil},
			"crash":           {answer{status: 200, fault: "Unhandled", body: `{"errorType": "Runtime.ExitError", "errorMessage": "m"}`}, nil},
		} {
			_, err := open(t, &answers{list: []answer{test.answer}}).Run(t.Context(), request(), nil)
			require.Error(t, err, name)
			for _, kind := range []error{sandbox.ErrUnavailable, sandbox.ErrLost} {
				assert.Equal(t, errors.Is(test.is, kind), errors.Is(err, kind), "%s: %v", name, err)
			}
			assert.NotContains(t, err.Error(), "hush-hush", name)
		}
	})
}
