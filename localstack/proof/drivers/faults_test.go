package drivers_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/emulators"
	"millrace/localstack/proof/drivers"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table/dynamo"
)

// badLine is a connection to DynamoDB on which, once armed, three of ten calls
// are throttled and the response to every twentieth write is lost.
type badLine struct {
	armed             atomic.Bool
	calls, writes     atomic.Int64
	throttled, losses atomic.Int64
}

func (b *badLine) RoundTrip(r *http.Request) (*http.Response, error) {
	if !b.armed.Load() {
		return http.DefaultTransport.RoundTrip(r)
	}
	b.calls.Add(1)
	if rand.IntN(10) < 3 {
		b.throttled.Add(1)
		body := `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"Rate exceeded"}`
		return &http.Response{
			StatusCode: http.StatusBadRequest, Status: "400 Bad Request", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, ContentLength: int64(len(body)),
			Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	action := r.Header.Get("X-Amz-Target")
	write := strings.HasSuffix(action, "UpdateItem") || strings.HasSuffix(action, "PutItem") || strings.HasSuffix(action, "TransactWriteItems")
	if err == nil && write && b.writes.Add(1)%20 == 0 {
		b.losses.Add(1)
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		return nil, fmt.Errorf("connection lost: %w", io.ErrUnexpectedEOF)
	}
	return res, err
}

// TestCloudOnUnreliableNetwork runs flows while the table throttles and
// responses are lost: every run must end as expected, and each of its tasks
// once.
func TestCloudOnUnreliableNetwork(t *testing.T) {
	t.Parallel()
	line := &badLine{}
	s := drivers.Open(t, func(t *testing.T) localtest.Options {
		o := cloud(t)
		endpoint := emulators.DynamoDB(t)
		name := "test-" + ids.Token(9)
		require.NoError(t, emulators.CreateTable(t.Context(), dynamodb.NewFromConfig(endpoint.Config()), name))
		o.Table = dynamo.New(dynamo.Config{Table: name, AWS: func(context.Context) (aws.Config, error) {
			base := endpoint.Config()
			base.HTTPClient = &http.Client{Transport: line}
			return base, nil
		}})
		return o
	})
	post := func(path string, body any, out any) {
		t.Helper()
		require.Eventually(t, func() bool { // 503 if the driver's own retries were not sufficient
			return s.Client.Do(t.Context(), http.MethodPost, path, body, out) == nil
		}, time.Minute, 100*time.Millisecond)
	}
	each := task("each", "t2")
	each["map_over"] = "lists.range(30)"
	bad := task("bad", "t1")
	bad["config"] = map[string]any{"expression": "params.absent"}
	flows := map[string]struct {
		tasks []map[string]any
		want  string
	}{
		"chain":   {[]map[string]any{task("t1"), task("t2", "t1"), task("t3", "t2"), task("t4", "t3"), task("t5", "t4")}, "SUCCEEDED"},
		"mapped":  {[]map[string]any{task("t1"), task("t2", "t1"), each, task("join", "each", "t1")}, "SUCCEEDED"},
		"failing": {[]map[string]any{task("t1"), bad, task("after", "bad")}, "FAILED"},
	}
	want := map[string]string{}
	line.armed.Store(true)
	for name, f := range flows {
		post("/flows", map[string]any{"flow_name": name, "flow_version": "1", "flow_spec": map[string]any{"tasks": f.tasks}}, nil)
		for range 4 {
			var run client.Run
			post("/runs", map[string]any{"flow_name": name, "flow_version": "1"}, &run)
			want[run.RunID] = f.want
		}
	}
	deadline := time.Now().Add(90 * time.Second)
	for id, status := range want {
		var run client.Run
		for !run.Ended() && time.Now().Before(deadline) {
			got, err := s.Client.Run(t.Context(), id)
			if err == nil {
				run = got
			}
			<-time.After(50 * time.Millisecond)
		}
		assert.Equal(t, status, run.Status, "run %s: %+v", id, run.TaskRuns)
		seen := bytes.Buffer{}
		for _, r := range run.TaskRuns {
			fmt.Fprintf(&seen, "%s %v %s; ", r.TaskName, r.MapIndex, r.Status)
			assert.NotContains(t, []string{"RUNNING", "RETRYING"}, r.Status, seen.String())
		}
	}
	line.armed.Store(false)
	t.Logf("%d calls: %d throttled, %d of %d writes answered by a lost connection", line.calls.Load(), line.throttled.Load(), line.losses.Load(), line.writes.Load())
	assert.Positive(t, line.losses.Load())
}
