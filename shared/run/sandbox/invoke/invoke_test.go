package invoke_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/keyring"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/sandbox/invoke"
	"millrace/shared/run/sandbox/ticket"
	"millrace/shared/run/tasktype"
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
		Prefix: "sandbox-", Keys: keyring.Static(key),
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

func TestDispatchInvokesFunctionOfTier(t *testing.T) {
	t.Parallel()
	lambda := &answers{list: []answer{{status: 202}}}
	index := 2
	attempt := ticket.Attempt{
		Org: "org_a", Run: "RUN", Node: 7, Number: 3, Task: "t", MapIndex: &index, Nonce: "n", Expires: time.Now().Unix() + 60,
	}
	require.NoError(t, open(t, lambda).Dispatch(t.Context(), "small", attempt))
	require.Len(t, lambda.requests, 1)
	r := lambda.requests[0]
	assert.Equal(t, "/2015-03-31/functions/sandbox-small/invocations", r.URL.Path)
	assert.Equal(t, "live", r.URL.Query().Get("Qualifier"), "the deployed version, not the one that an update is making")
	assert.Equal(t, "org_a", r.Header.Get("X-Amz-Tenant-Id"))
	assert.Equal(t, "Event", r.Header.Get("X-Amz-Invocation-Type"))
	var event map[string]string
	require.NoError(t, json.Unmarshal(lambda.bodies[0], &event))
	assert.Len(t, event, 1, "an event has no link and no secret")
	got, err := ticket.Check(t.Context(), keyring.Static(key), event["token"], time.Now())
	require.NoError(t, err)
	assert.Equal(t, attempt, got)
}

// TestDispatchIsRepeated checks that an invocation is repeated whatever became
// of it, and that the error of the last one names the cause.
func TestDispatchIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, broken := range map[string]answer{
			"throttled":       {status: 429, kind: "TooManyRequestsException", body: `{"Message": "Rate Exceeded."}`},
			"service":         {status: 500, kind: "ServiceException", body: `{"Message": "boom"}`},
			"gateway":         {status: 503},
			"connection lost": {err: &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}},
		} {
			lambda := &answers{list: []answer{broken, broken, {status: 202}}}
			require.NoError(t, open(t, lambda).Dispatch(t.Context(), "nano", ticket.Attempt{Org: "o"}), name)
			assert.Len(t, lambda.requests, 3, name)
			lambda = &answers{list: []answer{broken}}
			err := open(t, lambda).Dispatch(t.Context(), "nano", ticket.Attempt{Org: "o"})
			require.ErrorContains(t, err, "the sandbox was not started", name)
		}
	})
	lambda := &answers{list: []answer{{status: 404, kind: "ResourceNotFoundException", body: `{"Message": "Function not found"}`}}}
	require.ErrorContains(t, open(t, lambda).Dispatch(t.Context(), "nano", ticket.Attempt{Org: "o"}), "ResourceNotFoundException")
	assert.Len(t, lambda.requests, 1)
}

func TestMessage(t *testing.T) {
	t.Parallel()
	s := open(t, &answers{})
	message, err := s.Message(t.Context(), request())
	require.NoError(t, err)
	assert.JSONEq(t, `{"run_id": "RUN", "flow_name": "f", "flow_version": "1", "task_name": "t", "task_run_id": "RUN-7-3",
		"attempt": 3, "map_index": 2, "item": {"a": 1}, "entrypoint": "m:f", "timeout_secs": 90, "import_timeout_secs": 60,
		"inputs": {"up": {"value": [1]}, "far": {"url": "https://s3.test/o"}}, "params": {"p": 12345678901234567890},
		"secrets": {"token": "hush-hush"}, "output_url": "https://s3.test/out",
		"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"artifact": {"hash": "h", "url": "https://s3.test/a"}}`, string(message))

	unsigned := request()
	unsigned.Artifact.URL = func(context.Context) (string, error) { return "", errors.New("throttled") }
	_, err = s.Message(t.Context(), unsigned)
	require.ErrorIs(t, err, sandbox.ErrUnavailable)
}

// TestMessageFitsInAnAnswer answers messages as a function's URL does: as a
// string in JSON.
func TestMessageFitsInAnAnswer(t *testing.T) {
	t.Parallel()
	s := open(t, &answers{})
	for name, c := range map[string]struct {
		element string
		bytes   int // of the item
		fits    bool
	}{
		"text":          {"x", 6<<20 - 32<<10, true},
		"too much text": {"x", 6 << 20, false},
		"markup":        {"<", 6<<20 - 32<<10, true},
		"quotes":        {`\"`, 4 << 20, false},
		"fewer quotes":  {`\"`, 2 << 20, true},
		"lines":         {`\n`, 4 << 20, false},
		"fewer lines":   {`\n`, 3 << 20, true},
		"other letters": {`é`, 6<<20 - 32<<10, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := request()
			req.Item = json.RawMessage(`"` + strings.Repeat(c.element, c.bytes/len(c.element)) + `"`)
			message, err := s.Message(t.Context(), req)
			if !c.fits {
				require.ErrorContains(t, err, "fit")
				e, ok := errors.AsType[*errs.Error](err)
				require.True(t, ok)
				assert.Equal(t, errs.TooLarge, e.Code, "the next attempt would fail as well")
				return
			}
			require.NoError(t, err)
			var out bytes.Buffer
			encoder := json.NewEncoder(&out)
			encoder.SetEscapeHTML(false)
			require.NoError(t, encoder.Encode(events.APIGatewayV2HTTPResponse{Body: string(message)}))
			assert.Less(t, out.Len(), 6<<20)
		})
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	greedy := sandbox.Result{Failure: &sandbox.Failure{
		Type: "TaskFailedError", Message: "the task used all of small's 1,024 MB of memory; the next larger tier is execution_mode medium with 2,048 MB",
	}}
	for name, tc := range map[string]struct {
		answer      string
		want        sandbox.Result
		took        time.Duration
		err         string
		unavailable bool
	}{
		"output":      {answer: `{"output": null, "output_bytes": 4, "task_secs": 1.5}`, want: sandbox.Result{Output: json.RawMessage(`null`), OutputBytes: 4}, took: 1500 * time.Millisecond},
		"uploaded":    {answer: `{"output_ref": true, "output_bytes": 99, "task_secs": -1}`, want: sandbox.Result{Uploaded: true, OutputBytes: 99}},
		"failure":     {answer: `{"failure": {"type": "TaskFailedError", "message": "m"}, "task_secs": 1e9}`, want: sandbox.Result{Failure: &sandbox.Failure{Type: "TaskFailedError", Message: "m"}}, took: 900 * time.Second},
		"error":       {answer: `{"error": "the interpreter died: exit status 4"}`, err: "exit status 4"},
		"no artifact": {answer: `{"error": "the artifact could not be fetched", "unstarted": true}`, err: "artifact", unavailable: true},
		"nothing":     {answer: `{}`, err: "no output"},
		"no JSON":     {answer: `oops`, err: "not readable"},
		"greedy task": {answer: `{"error": "the interpreter died: killed by signal 9", "out_of_memory": true, "task_secs": 3}`, want: greedy, took: 3 * time.Second},
	} {
		got, took, err := open(t, &answers{}).Answer(json.RawMessage(tc.answer), "small")
		assert.Equal(t, tc.want, got, name)
		assert.Equal(t, tc.took, took, name)
		assert.Equal(t, tc.unavailable, errors.Is(err, sandbox.ErrUnavailable), name)
		if tc.err == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, tc.err, name)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := invoke.New(invoke.Config{Prefix: "p", Keys: keyring.Static(key[1:]), AWS: func(context.Context) (aws.Config, error) { return aws.Config{}, nil }})
	require.ErrorContains(t, err, "32 are required")
	_, err = invoke.New(invoke.Config{})
	require.Error(t, err)
}

// TestTaskFitsInAnInvocation: import, task and upload share the longest
// invocation, whatever time the task has.
func TestTaskFitsInAnInvocation(t *testing.T) {
	t.Parallel()
	s := open(t, &answers{})
	for secs, want := range map[int]float64{1: 60, 600: 60, 815: 60, 816: 59, tasktype.HeldSecs: 35} {
		req := request()
		req.Timeout = time.Duration(secs) * time.Second
		data, err := s.Message(t.Context(), req)
		require.NoError(t, err)
		var message struct {
			Timeout   float64 `json:"timeout_secs"`
			Importing float64 `json:"import_timeout_secs"`
		}
		require.NoError(t, json.Unmarshal(data, &message))
		assert.InDelta(t, want, message.Importing, 0, "of %d", secs)
		assert.LessOrEqual(t, message.Timeout+message.Importing, 875.0)
	}
}
