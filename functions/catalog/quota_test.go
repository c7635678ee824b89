package catalog_test

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/queue"
)

type object = map[string]any

var spec = object{"tasks": []object{
	{"name": "a", "type": "transform", "config": object{"expression": "1"}},
	{"name": "b", "type": "transform", "config": object{"expression": "2"}},
}}

func open(t *testing.T, limits ...string) *localtest.Env {
	t.Helper()
	env := localtest.Open(t, localtest.Options{Limits: limits}, catalog.All()...)
	// In the middle of a minute, so that a rate's window does not end during the
	// test.
	env.Clock.Set(time.Now().Truncate(time.Minute).Add(time.Minute + 10*time.Second))
	return env
}

func flow(env *localtest.Env, t *testing.T, key, name, version string) *localtest.Response {
	t.Helper()
	return env.Do(t, key, "POST", "/flows", object{"flow_name": name, "flow_version": version, "flow_spec": spec})
}

func run(env *localtest.Env, t *testing.T, key string) *localtest.Response {
	t.Helper()
	return env.Do(t, key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "1"})
}

// refused checks a 429: it must name the limit and the retry delay.
func refused(t *testing.T, res *localtest.Response, detail string, after int) {
	t.Helper()
	require.Equal(t, http.StatusTooManyRequests, res.Code, "%s", res.Body)
	assert.Contains(t, res.String(t, "detail"), detail)
	seconds, err := strconv.Atoi(res.Header.Get("Retry-After"))
	require.NoError(t, err)
	assert.True(t, seconds >= 1 && seconds <= after, "Retry-After: %d", seconds)
}

// Each quota admits as many as it allows, rejects one more without a change,
// does not affect other workspaces, and admits as many as were freed.
func TestQuotas(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit  string
		do     func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response
		free   func(env *localtest.Env, t *testing.T, first *localtest.Response)
		detail string
		of     bool // per user, in any workspace
	}{
		"API keys": {
			limit: "api-keys=3", // the test's own key is one
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				return env.Do(t, key, "POST", "/api-keys", object{"name": fmt.Sprint("k", n)})
			},
			free: func(env *localtest.Env, t *testing.T, first *localtest.Response) {
				env.Do(t, env.A.Key, "DELETE", "/api-keys/"+first.String(t, "key_id"), nil)
			},
			detail: "The workspace has 3 API keys; at most 3 are allowed (limit api-keys). Delete some, or ask the operator to raise the limit",
		},
		"workspaces": {
			limit: "workspaces=3",
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				return env.Do(t, key, "POST", "/orgs", object{"name": fmt.Sprint("w", n)})
			},
			detail: "The user has 3 workspaces made by them; at most 3 are allowed (limit workspaces).", of: true,
		},
		"members": {
			limit: "members=3", // the owner is one
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				org := env.Do(t, key, "GET", "/orgs", nil).String(t, "items", 0, "org_id")
				return env.Do(t, key, "POST", "/orgs/"+org+"/members", object{"email": fmt.Sprintf("m%d@x.test", n), "role": "viewer"})
			},
			detail: "The workspace has 3 members; at most 3 are allowed (limit members). Have new people join another workspace, or ask the operator",
		},
		"flows": {
			limit: "flows=2",
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				return flow(env, t, key, fmt.Sprint("f", n), "1")
			},
			free: func(env *localtest.Env, t *testing.T, _ *localtest.Response) {
				env.Do(t, env.A.Key, "DELETE", "/flows/f0", nil).Require(t, 200)
			},
			detail: "The workspace has 2 flows; at most 2 are allowed (limit flows).",
		},
		"versions": {
			limit: "flow-versions=2",
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				return flow(env, t, key, "etl", fmt.Sprint(n))
			},
			detail: "The flow has 2 versions; at most 2 are allowed (limit flow-versions).",
		},
		"drafts": {
			limit: "drafts=2",
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				return env.Do(t, key, "POST", fmt.Sprintf("/flows/d%d/draft", n), nil)
			},
			free: func(env *localtest.Env, t *testing.T, _ *localtest.Response) {
				flow(env, t, env.A.Key, "d0", "1").Require(t, 200)
				env.Do(t, env.A.Key, "DELETE", "/flows/d0", nil).Require(t, 200)
			},
			detail: "The workspace has 2 drafts; at most 2 are allowed (limit drafts).",
		},
		"deployments": {
			limit: "deployments=2",
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				flow(env, t, key, "etl", "1").Require(t, 200)
				return env.Do(t, key, "POST", "/deployments", object{"deployment_name": fmt.Sprint("d", n), "flow_name": "etl", "flow_version": "1"})
			},
			free: func(env *localtest.Env, t *testing.T, _ *localtest.Response) {
				env.Do(t, env.A.Key, "DELETE", "/deployments/d0", nil)
			},
			detail: "The workspace has 2 deployments; at most 2 are allowed (limit deployments).",
		},
		"uploads": {
			limit: "open-uploads=2",
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				return upload(env, t, key, n, 1000)
			},
			free:   abort,
			detail: "The workspace has 2 open uploads; at most 2 are allowed (limit open-uploads). Complete or abort some",
		},
		"bytes": {
			limit: "artifact-bytes=2500",
			do: func(env *localtest.Env, t *testing.T, key string, n int) *localtest.Response {
				return upload(env, t, key, n, 1000)
			},
			free:   abort,
			detail: " bytes of artifacts, and 1000 more were asked for; at most 2500 are allowed (limit artifact-bytes).",
		},
		"unfinished runs": {
			limit: "unfinished-runs=2",
			do: func(env *localtest.Env, t *testing.T, key string, _ int) *localtest.Response {
				flow(env, t, key, "etl", "1").Require(t, 200)
				return run(env, t, key)
			},
			free:   cancel,
			detail: "The workspace has 2 unfinished runs; at most 2 are allowed (limit unfinished-runs). Wait until some have ended or cancel some",
		},
		"queued tasks": {
			limit: "queued-tasks=4",
			do: func(env *localtest.Env, t *testing.T, key string, _ int) *localtest.Response {
				flow(env, t, key, "etl", "1").Require(t, 200)
				return run(env, t, key)
			},
			free:   cancel,
			detail: "The workspace has 4 tasks of unfinished runs, and 2 more were asked for; at most 4 are allowed (limit queued-tasks).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := open(t, c.limit)
			var first *localtest.Response
			for n := range 2 {
				res := c.do(env, t, env.A.Key, n).Require(t, 200)
				if first == nil {
					first = res
				}
			}
			audited := env.AuditCount(t, env.A.OrgID)
			for range 3 {
				refused(t, c.do(env, t, env.A.Key, 2), c.detail, 5)
			}
			assert.Equal(t, audited, env.AuditCount(t, env.A.OrgID), "what is refused changes nothing")
			if !c.of {
				c.do(env, t, env.B.Key, 0).Require(t, 200)
			}
			if c.free == nil {
				return
			}
			c.free(env, t, first)
			env.Clock.Advance(5 * time.Second)
			c.do(env, t, env.A.Key, 3).Require(t, 200)
			refused(t, c.do(env, t, env.A.Key, 4), c.detail, 5)
		})
	}
}

func upload(env *localtest.Env, t *testing.T, key string, n, size int) *localtest.Response {
	t.Helper()
	return env.Do(t, key, "POST", "/artifacts/initiate", object{"flow_name": "etl", "flow_version": fmt.Sprint(n), "size_bytes": size})
}

func abort(env *localtest.Env, t *testing.T, first *localtest.Response) {
	t.Helper()
	env.Do(t, env.A.Key, "POST", "/artifacts/abort", object{
		"upload_id": first.String(t, "upload_id"), "artifact_key": first.String(t, "artifact_key"),
	})
}

func cancel(env *localtest.Env, t *testing.T, first *localtest.Response) {
	t.Helper()
	env.Do(t, env.A.Key, "POST", "/runs/"+first.String(t, "run_id")+"/cancel", nil).Require(t, 200)
	settle(env, t)
}

// settle completes the processing of cancelled runs.
func settle(env *localtest.Env, t *testing.T) {
	t.Helper()
	dispatch, ok := catalog.Find(catalog.All(), "dispatch")
	require.True(t, ok)
	handle := dispatch.Messages(env.Deps)
	for _, trigger := range dispatch.Trigger.Queues {
		got, err := env.Deps.Queues.Receive(t.Context(), trigger.Queue, queue.MaxBatch, 0)
		require.NoError(t, err)
		for _, m := range got {
			out, err := handle(t.Context(), events.SQSEvent{Records: []events.SQSMessage{{
				MessageId: m.ID, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:x:0:" + trigger.Queue,
				Attributes: map[string]string{"ApproximateReceiveCount": "1"},
			}}})
			require.NoError(t, err)
			require.Empty(t, out.BatchItemFailures)
			require.NoError(t, env.Deps.Queues.Delete(t.Context(), trigger.Queue, m.Receipt))
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	env := open(t, "runs-per-minute=3", "reads-per-minute=4")
	flow(env, t, env.A.Key, "etl", "1").Require(t, 200)
	for range 3 {
		run(env, t, env.A.Key).Require(t, 200)
	}
	refused(t, run(env, t, env.A.Key), "Too many runs started: at most 3 are allowed in a minute for a workspace (limit runs-per-minute).", 50)
	for range 4 {
		env.Do(t, env.A.Key, "GET", "/runs", nil).Require(t, 200)
	}
	refused(t, env.Do(t, env.A.Key, "GET", "/runs", nil), "Too many requests that read: at most 4", 50)
	env.Do(t, "svc_nobody", "GET", "/runs", nil).Require(t, 401)
	env.Do(t, env.B.Key, "GET", "/runs", nil).Require(t, 200)
	env.Clock.Advance(time.Minute)
	run(env, t, env.A.Key).Require(t, 200)
	env.Do(t, env.A.Key, "GET", "/runs", nil).Require(t, 200)
}

// A request repeated with its idempotency key is answered; neither it nor one
// rejected for another reason uses up a limit.
func TestRequestsWithoutNewRunUseNoQuota(t *testing.T) {
	t.Parallel()
	env := open(t, "runs-per-minute=1")
	flow(env, t, env.A.Key, "etl", "1").Require(t, 200)
	env.Do(t, env.A.Key, "POST", "/runs", object{"flow_name": "etl", "flow_version": "none"}).Require(t, 404)
	body := object{"flow_name": "etl", "flow_version": "1"}
	header := http.Header{"Idempotency-Key": {"k"}}
	first := env.Send(t, localtest.Request{Credential: env.A.Key, Method: "POST", Path: "/runs", Body: body, Header: header}).Require(t, 200)
	again := env.Send(t, localtest.Request{Credential: env.A.Key, Method: "POST", Path: "/runs", Body: body, Header: header}).Require(t, 200)
	assert.Equal(t, first.String(t, "run_id"), again.String(t, "run_id"))
	refused(t, run(env, t, env.A.Key), "limit runs-per-minute", 50)
}

// Two servers on one table share a workspace's limit.
func TestServersShareLimits(t *testing.T) {
	t.Parallel()
	const limit = 300
	one := open(t, fmt.Sprintf("runs-per-minute=%d", limit))
	two := localtest.Open(t, localtest.Options{
		Limits: []string{fmt.Sprintf("runs-per-minute=%d", limit)}, Table: one.Deps.Table, Queues: one.Deps.Queues, Blob: one.Deps.Blob,
	}, catalog.All()...)
	two.Clock.Set(one.Clock.Now())
	flow(one, t, one.A.Key, "etl", "1").Require(t, 200)
	var accepted, turned atomic.Int64
	var group sync.WaitGroup
	for _, env := range []*localtest.Env{one, two, one, two} {
		group.Go(func() {
			for range limit / 3 {
				switch res := run(env, t, one.A.Key); res.Code {
				case 200:
					accepted.Add(1)
				case 429:
					turned.Add(1)
				default:
					assert.Equal(t, 200, res.Code, "%s", res.Body)
				}
			}
		})
	}
	group.Wait()
	assert.EqualValues(t, limit+limit/3, accepted.Load()+turned.Load())
	assert.LessOrEqual(t, accepted.Load(), int64(limit), "together no more than the limit")
	assert.GreaterOrEqual(t, accepted.Load(), int64(limit-2*limit/20), "but for the slices that were not spent")
}
