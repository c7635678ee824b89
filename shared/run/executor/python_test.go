package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/table"
	"millrace/shared/platform/vault"
	"millrace/shared/run/executor"
	"millrace/shared/run/expr"
	"millrace/shared/run/sandbox"
)

// fake is a sandbox whose behaviour a test sets.
type fake func(ctx context.Context, req sandbox.Request, log func(sandbox.LogEvent)) (sandbox.Result, error)

func (f fake) Run(ctx context.Context, req sandbox.Request, log func(sandbox.LogEvent)) (sandbox.Result, error) {
	return f(ctx, req, log)
}
func (fake) Close() error { return nil }

const pyTask = `{"name":"p","type":"python","entrypoint":"flow:main","depends_on":["up"],"config":{"env":{"key":"${{ secrets.token }}"}}}`

// python runs an attempt of a task in a fake sandbox.
func python(t *testing.T, task string, change func(*executor.Attempt), run fake) (executor.Result, *logged, *blobtest.Memory) {
	t.Helper()
	a, log := attempt(t, task)
	a.Output = func(_ context.Context, name string) (executor.Value, error) {
		assert.Equal(t, "up", name, "only what the task depends on")
		return executor.Value{JSON: json.RawMessage(`[1,2]`), Size: 5}, nil
	}
	store := &blobtest.Memory{}
	if change != nil {
		change(a)
	}
	return executor.Python{Sandbox: run, Blob: store}.Execute(t.Context(), a), log, store
}

func TestPythonRequest(t *testing.T) {
	t.Parallel()
	var got sandbox.Request
	run := func(_ context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
		got = req
		return sandbox.Result{Output: json.RawMessage(`{"a":1}`), OutputBytes: 7}, nil
	}
	r, _, _ := python(t, pyTask, func(a *executor.Attempt) { a.MapIndex, a.Item, a.Number = index(2), json.RawMessage(`"x"`), 3 }, run)
	require.Nil(t, r.Failure)
	assert.Equal(t, executor.Value{JSON: json.RawMessage(`{"a":1}`), Size: 7}, r.Output)
	assert.Equal(t, map[string]sandbox.Input{"up": {Value: json.RawMessage(`[1,2]`)}}, got.Inputs)
	assert.Equal(t, map[string]string{"token": secret}, got.Secrets)
	assert.Equal(t, "org_test nano 01RUN f 1 p 01RUN-1-1 3 flow:main 1m0s", fmt.Sprint(got.Workspace, " ", got.Tier, " ", got.RunID, " ", got.FlowName, " ",
		got.FlowVersion, " ", got.TaskName, " ", got.TaskRunID, " ", got.Attempt, " ", got.Entrypoint, " ", got.Timeout))
	assert.Equal(t, 2, *got.MapIndex)
	assert.Equal(t, `"x"`, string(got.Item))
	assert.Equal(t, `"monday"`, string(got.Params["day"]))
	assert.NotEmpty(t, made(t, got.Artifact.URL))
	assert.NotContains(t, got.Artifact.Hash, "/")
	assert.NotEmpty(t, made(t, got.OutputURL))

	r, _, _ = python(t, `{"name":"p","type":"python","entrypoint":"flow:main","depends_on":["up"]}`, func(a *executor.Attempt) {
		a.Output = func(context.Context, string) (executor.Value, error) {
			return executor.Value{Ref: "org_test/runs/01RUN/out/0-1.json", Size: 1 << 20}, nil
		}
	}, run)
	require.Nil(t, r.Failure)
	assert.Nil(t, got.Inputs["up"].Value)
	assert.NotEmpty(t, made(t, got.Inputs["up"].URL), "a large output travels as a link")
	assert.Nil(t, got.Secrets, "a task gets the secrets that its config names")
}

// TestPythonArguments checks that a task with inputs gets only these by name,
// and that a whole output is passed by reference.
func TestPythonArguments(t *testing.T) {
	t.Parallel()
	var got sandbox.Request
	run := func(_ context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
		got = req
		return sandbox.Result{Output: json.RawMessage(`1`)}, nil
	}
	const task = `{"name":"p","type":"python","entrypoint":"flow:main","depends_on":["up"],"map_over":"[1]","inputs":%s}`
	held := int64(-1)
	r, _, _ := python(t, fmt.Sprintf(task, `{"rows":"${{ tasks.up.output }}","first":"${{ tasks.up.output[0] }}","table":"orders","row":["${{ item }}",{"day":"on ${{ params.day }}"}]}`),
		func(a *executor.Attempt) {
			a.MapIndex, a.Item = index(0), json.RawMessage(`"x"`)
			a.Hold = func(_ context.Context, bytes int64) error { held = bytes; return nil }
			a.Output = func(_ context.Context, name string) (executor.Value, error) {
				return executor.Value{Ref: "org_test/runs/01RUN/out/0-1.json", Size: 200 << 20}, nil
			}
		}, run)
	require.Nil(t, r.Failure)
	assert.True(t, got.OnlyInputs)
	assert.NotEmpty(t, made(t, got.Inputs["rows"].URL), "however large it is")
	delete(got.Inputs, "rows")
	assert.Equal(t, map[string]sandbox.Input{
		"first": {Value: json.RawMessage(`1`)}, "table": {Value: json.RawMessage(`"orders"`)}, "row": {Value: json.RawMessage(`["x",{"day":"on monday"}]`)},
	}, got.Inputs)
	assert.EqualValues(t, 1+8+25, held, "the outputs that were read are not held while the task runs")

	r, _, _ = python(t, fmt.Sprintf(task, `{}`), nil, run)
	require.Nil(t, r.Failure)
	assert.True(t, got.OnlyInputs)
	assert.Empty(t, got.Inputs)

	for inputs, want := range map[string]string{
		`{"x":"${{ params.none }}"}`:        "inputs: ",
		`{"x":"${{ tasks.up.output[9] }}"}`: "inputs: ",
	} {
		r, _, _ = python(t, fmt.Sprintf(task, inputs), nil, run)
		require.NotNil(t, r.Failure, inputs)
		assert.Equal(t, executor.Expression, r.Failure.Type)
		assert.True(t, r.Failure.Final, "no retry mends it")
		assert.Contains(t, r.Failure.Message, want)
	}
	r, _, _ = python(t, fmt.Sprintf(task, `{"x":"${{ tasks.up.output }} "}`), func(a *executor.Attempt) {
		a.Scope = func(context.Context, []string) (expr.Scope, error) {
			return expr.Scope{Tasks: map[string]expr.TaskView{"up": {Output: strings.Repeat("x", executor.MaxArguments)}}}, nil
		}
	}, run)
	require.NotNil(t, r.Failure)
	assert.Contains(t, r.Failure.Message, "hand on a task's whole output")
}

func TestPythonEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		task   string
		change func(*executor.Attempt)
		result sandbox.Result
		err    error
		want   executor.Failure
	}{
		"failure":  {result: sandbox.Result{Failure: &sandbox.Failure{Type: sandbox.TaskFailedError, Message: "ValueError: no"}}, want: executor.Failure{Type: executor.TaskFailed, Message: "ValueError: no"}},
		"output":   {result: sandbox.Result{Failure: &sandbox.Failure{Type: sandbox.ArtifactSerializationError, Message: "set"}}, want: executor.Failure{Type: executor.Serialization, Message: "set"}},
		"time-out": {result: sandbox.Result{Failure: &sandbox.Failure{Type: sandbox.TaskTimeoutError, Message: "late"}}, want: executor.Failure{Type: executor.TaskTimeout, Message: "late", TimedOut: true}},
		"died":     {err: errors.New("the interpreter died"), want: executor.Failure{Type: executor.SandboxFailed, Message: "the interpreter died"}},
		"no code":  {change: func(a *executor.Attempt) { a.Artifact = "" }, want: executor.Failure{Type: executor.TaskFailed, Message: "the flow version has no artifact to run flow:main from", Final: true}},
		"store": {change: func(a *executor.Attempt) {
			a.Output = func(context.Context, string) (executor.Value, error) {
				return executor.Value{}, errors.New("throttled")
			}
		}, want: executor.Failure{Type: executor.SandboxFailed, Message: "output of up: throttled"}},
		"no secret": {task: strings.ReplaceAll(pyTask, "token", "none"), want: executor.Failure{Type: executor.Expression, Message: "config: there is no secret named none", Final: true}},
		"secrets down": {change: func(a *executor.Attempt) {
			a.Secret = func(string) (string, error) { return "", errors.New("throttled") }
		}, want: executor.Failure{Type: executor.Expression, Message: "config: secret token: throttled"}},
	} {
		if test.task == "" {
			test.task = pyTask
		}
		r, _, _ := python(t, test.task, test.change, func(context.Context, sandbox.Request, func(sandbox.LogEvent)) (sandbox.Result, error) {
			return test.result, test.err
		})
		require.NotNil(t, r.Failure, name)
		assert.Equal(t, test.want, *r.Failure, name)
	}
	r := executor.Python{}.Execute(t.Context(), &executor.Attempt{})
	require.NotNil(t, r.Failure)
	assert.True(t, r.Failure.Final)
	assert.False(t, executor.Python{}.Instant())
}

func TestPythonContextEnds(t *testing.T) {
	t.Parallel()
	a, _ := attempt(t, `{"name":"p","type":"python","entrypoint":"flow:main"}`)
	ctx, cancel := context.WithCancelCause(t.Context())
	run := fake(func(ctx context.Context, _ sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
		cancel(errors.New("lease lost"))
		<-ctx.Done()
		return sandbox.Result{}, context.Cause(ctx)
	})
	r := executor.Python{Sandbox: run, Blob: &blobtest.Memory{}}.Execute(ctx, a)
	require.NotNil(t, r.Failure)
	assert.Equal(t, executor.Failure{Type: executor.Cancelled, Message: "lease lost"}, *r.Failure)
}

func TestPythonErrorsContainNoLinks(t *testing.T) {
	t.Parallel()
	var links []string
	r, _, _ := python(t, pyTask, nil, func(_ context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
		links = []string{made(t, req.Artifact.URL), made(t, req.OutputURL)}
		return sandbox.Result{}, fmt.Errorf("Get %q, then Put %q: EOF", links[0], links[1])
	})
	require.NotNil(t, r.Failure)
	for _, link := range links {
		assert.NotContains(t, r.Failure.Message, link)
	}
	assert.Contains(t, r.Failure.Message, "EOF")
}

func made(t *testing.T, link sandbox.Link) string {
	t.Helper()
	url, err := link(t.Context())
	require.NoError(t, err)
	return url
}

// signing counts the links of a store. Signing fails with err.
type signing struct {
	blob.Store
	links int
	err   error
}

func (s *signing) PresignGet(context.Context, string, time.Duration, string) (string, error) {
	s.links++
	return "link", s.err
}

func (s *signing) PresignPut(context.Context, string, time.Duration) (string, error) {
	s.links++
	return "link", s.err
}

// TestPythonSignsOnlyLinksThatAreNeeded checks that a link is signed when the
// sandbox asks for it: signing takes longer than a short task.
func TestPythonSignsOnlyLinksThatAreNeeded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		asks      func(sandbox.Request) sandbox.Link
		err       error
		links     int
		final     bool
		unstarted string
	}{
		"none":      {},
		"artifact":  {asks: func(r sandbox.Request) sandbox.Link { return r.Artifact.URL }, links: 1},
		"output":    {asks: func(r sandbox.Request) sandbox.Link { return r.OutputURL }, links: 1},
		"throttled": {asks: func(r sandbox.Request) sandbox.Link { return r.Artifact.URL }, err: errors.New("throttled"), links: 1, unstarted: "link to the artifact: throttled: the sandbox is not available"},
		"no store":  {asks: func(r sandbox.Request) sandbox.Link { return r.OutputURL }, err: blob.ErrNotConfigured, links: 1, final: true},
	} {
		a, _ := attempt(t, `{"name":"p","type":"python","entrypoint":"flow:main"}`)
		store := &signing{err: test.err}
		run := fake(func(ctx context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
			if test.asks != nil {
				if _, err := test.asks(req)(ctx); err != nil {
					return sandbox.Result{}, fmt.Errorf("%w: %w", err, sandbox.ErrUnavailable)
				}
			}
			return sandbox.Result{Output: json.RawMessage(`1`)}, nil
		})
		r := executor.Python{Sandbox: run, Blob: store}.Execute(t.Context(), a)
		assert.Equal(t, test.links, store.links, name)
		assert.Equal(t, test.unstarted, r.Unstarted, name)
		assert.Equal(t, test.err != nil, r.Failure != nil, name)
		if r.Failure != nil {
			assert.Equal(t, test.final, r.Failure.Final, name)
		}
	}
}

// TestPythonSecrets checks that logs, outputs and failures of a task contain no
// secret, even if the output is large and was uploaded by the task.
func TestPythonSecrets(t *testing.T) {
	t.Parallel()
	say := func(log func(sandbox.LogEvent)) {
		log(sandbox.LogEvent{Time: time.Now(), Level: "info", Logger: "stdout", Message: "the key is " + secret + "."})
	}
	r, log, _ := python(t, pyTask, nil, func(_ context.Context, _ sandbox.Request, l func(sandbox.LogEvent)) (sandbox.Result, error) {
		say(l)
		return sandbox.Result{Output: json.RawMessage(`{"key":"` + secret + `","n":1}`)}, nil
	})
	assert.Equal(t, []string{"info stdout the key is ***."}, log.text())
	assert.Equal(t, `{"key":"***","n":1}`, string(r.Output.JSON))
	assert.EqualValues(t, len(r.Output.JSON), r.Output.Size)

	failure := &sandbox.Failure{Type: sandbox.TaskFailedError, Message: "KeyError: " + secret}
	r, _, _ = python(t, pyTask, nil, func(context.Context, sandbox.Request, func(sandbox.LogEvent)) (sandbox.Result, error) {
		return sandbox.Result{Failure: failure}, nil
	})
	assert.Equal(t, "KeyError: ***", r.Failure.Message)

	for content, want := range map[string]string{
		`["` + strings.Repeat("x", 100_000) + secret + `"]`: `["` + strings.Repeat("x", 100_000) + `***"]`,
		`["` + strings.Repeat("x", 100_000) + `"]`:          "",
	} {
		store := &blobtest.Memory{}
		a, _ := attempt(t, pyTask)
		a.Output = func(context.Context, string) (executor.Value, error) {
			return executor.Value{JSON: json.RawMessage("1")}, nil
		}
		run := fake(func(ctx context.Context, _ sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
			_, err := blob.PutBytes(ctx, store, a.OutputKey, []byte(content), blob.PutOptions{})
			return sandbox.Result{Uploaded: true, OutputBytes: int64(len(content))}, err
		})
		r := executor.Python{Sandbox: run, Blob: store}.Execute(t.Context(), a)
		require.Nil(t, r.Failure)
		got, _, err := blob.GetBytes(t.Context(), store, r.Output.Ref, 1<<20)
		require.NoError(t, err)
		assert.EqualValues(t, len(got), r.Output.Size)
		if want == "" {
			assert.Equal(t, a.OutputKey, r.Output.Ref, "nothing to hide")
			continue
		}
		assert.Equal(t, want, string(got))
		_, err = store.Head(t.Context(), a.OutputKey)
		assert.ErrorIs(t, err, blob.ErrNotFound, "what was uploaded is gone")
	}
}

// TestUploadsAreVerified checks that an upload is read, whatever the task
// claims.
func TestUploadsAreVerified(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"": "it is not", `{"a":1}`: "", `{"a":1,"a":2}`: `a key twice: "/a"`, `"\ud800"`: "not JSON", "\"\xff\"": "UTF-8", `1],[2`: "not JSON",
	} {
		store := &blobtest.Memory{}
		a, _ := attempt(t, `{"name":"p","type":"python","entrypoint":"flow:main"}`)
		run := fake(func(ctx context.Context, _ sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
			var err error
			if content != "" {
				_, err = blob.PutBytes(ctx, store, a.OutputKey, []byte(content), blob.PutOptions{})
			}
			return sandbox.Result{Uploaded: true, OutputBytes: -5}, err
		})
		r := executor.Python{Sandbox: run, Blob: store}.Execute(t.Context(), a)
		if want == "" {
			assert.Equal(t, executor.Result{Output: executor.Value{Ref: a.OutputKey, Size: int64(len(content))}}, r)
			continue
		}
		require.NotNil(t, r.Failure, content)
		assert.Equal(t, executor.Serialization, r.Failure.Type)
		assert.Contains(t, r.Failure.Message, want)
	}
}

// unreachable is a store whose first reads fail.
type unreachable struct {
	*blobtest.Memory
	left int
}

func (u *unreachable) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	if u.left--; u.left >= 0 {
		return nil, blob.Object{}, errors.New("no route to host")
	}
	return u.Memory.Get(ctx, key, rng)
}

// TestUnreachableStoreLosesNoResult finishes a task whose output cannot be read
// at first.
func TestUnreachableStoreLosesNoResult(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &unreachable{Memory: &blobtest.Memory{}, left: 5}
		a, _ := attempt(t, `{"name":"p","type":"python","entrypoint":"flow:main"}`)
		run := fake(func(ctx context.Context, _ sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
			_, err := blob.PutBytes(ctx, store, a.OutputKey, []byte("[1]"), blob.PutOptions{})
			return sandbox.Result{Uploaded: true}, err
		})
		r := executor.Python{Sandbox: run, Blob: store}.Execute(t.Context(), a)
		assert.Equal(t, executor.Result{Output: executor.Value{Ref: a.OutputKey, Size: 3}}, r)
	})
}

func TestAttemptWithoutFunctions(t *testing.T) {
	t.Parallel()
	a, _ := attempt(t, transform("1 + 1"))
	a.Scope, a.Output, a.Secret, a.Log = nil, nil, nil, nil
	assert.Equal(t, "2", string(executor.Transform{}.Execute(t.Context(), a).Output.JSON))
	a, _ = attempt(t, pyTask)
	a.Scope, a.Output, a.Secret, a.Log = nil, nil, nil, nil
	r := executor.Python{Sandbox: fake(nil), Blob: &blobtest.Memory{}}.Execute(t.Context(), a)
	require.NotNil(t, r.Failure)
	assert.Contains(t, r.Failure.Message, "no output of up")
}

// slots is a fake sandbox with slots.
type slots struct {
	fake
	taken, given int
}

func (s *slots) Reserve(context.Context, string) (func(), error) {
	s.taken++
	return func() { s.given++ }, nil
}

func TestPythonReserves(t *testing.T) {
	t.Parallel()
	var got sandbox.Request
	box := &slots{fake: func(_ context.Context, req sandbox.Request, _ func(sandbox.LogEvent)) (sandbox.Result, error) {
		got = req
		return sandbox.Result{Output: json.RawMessage(`1`), OutputBytes: 1}, nil
	}}
	p := executor.Python{Sandbox: box, Blob: &blobtest.Memory{}}
	release, err := p.Reserve(t.Context(), "org")
	require.NoError(t, err)
	for _, reserved := range []bool{true, false} {
		a, _ := attempt(t, `{"name":"p","type":"python","entrypoint":"flow:main"}`)
		a.Reserved = reserved
		require.Nil(t, p.Execute(t.Context(), a).Failure)
		assert.Equal(t, reserved, got.Reserved)
	}
	release()
	assert.Equal(t, 1, box.taken)
	assert.Equal(t, 1, box.given)

	release, err = executor.Python{Sandbox: box.fake}.Reserve(t.Context(), "org")
	require.NoError(t, err)
	release()
	assert.Equal(t, 1, box.taken, "a sandbox without limit has no places")
}

// TestUnstarted distinguishes failures from causes that kept an attempt from
// beginning.
func TestUnstarted(t *testing.T) {
	t.Parallel()
	output := func(err error) func(*executor.Attempt) {
		return func(a *executor.Attempt) {
			a.Output = func(context.Context, string) (executor.Value, error) { return executor.Value{}, err }
		}
	}
	for name, test := range map[string]struct {
		change    func(*executor.Attempt)
		err       error
		unstarted string
		final     bool
	}{
		"table throttled":     {change: output(table.ErrThrottled), unstarted: "output of up: table: throttled"},
		"object gone":         {change: output(fmt.Errorf("get out/1: %w", blob.ErrNotFound)), final: true},
		"item too large":      {change: output(table.ErrLimit), final: true},
		"secrets unreachable": {change: func(a *executor.Attempt) { a.Secret = func(string) (string, error) { return "", vault.ErrUnavailable } }, unstarted: "config: secret token: vault: key not available"},
		"secret refused":      {change: func(a *executor.Attempt) { a.Secret = func(string) (string, error) { return "", vault.ErrRejected } }, final: true},
		"sandbox throttled":   {err: fmt.Errorf("%w: TooManyRequestsException: %s", sandbox.ErrUnavailable, secret), unstarted: "the sandbox is not available: TooManyRequestsException: ***"},
		"sandbox died":        {err: errors.New("the interpreter died")},
	} {
		r, _, _ := python(t, pyTask, test.change, func(context.Context, sandbox.Request, func(sandbox.LogEvent)) (sandbox.Result, error) {
			return sandbox.Result{}, test.err
		})
		require.NotNil(t, r.Failure, name)
		assert.Equal(t, test.unstarted, r.Unstarted, name)
		assert.Equal(t, test.final, r.Failure.Final, name)
		if test.unstarted != "" {
			assert.Equal(t, test.unstarted, r.Failure.Message, name)
		}
	}
	a, _ := attempt(t, `{"name":"x","type":"transform","depends_on":["up"],"config":{"expression":"tasks.up.output"}}`)
	a.Scope = func(context.Context, []string) (expr.Scope, error) { return expr.Scope{}, table.ErrThrottled }
	r := executor.Transform{}.Execute(t.Context(), a)
	assert.Equal(t, "config.expression: table: throttled", r.Unstarted)
}
