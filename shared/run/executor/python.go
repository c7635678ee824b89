package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/run/expr"
	"millrace/shared/run/sandbox"
	"millrace/shared/run/tier"
)

// Python runs a function of the flow's artifact in the sandbox.
type Python struct {
	Sandbox sandbox.Sandbox
	Blob    blob.Store
	Tiers   tier.Set // that the deployment has
}

// linkLife is how long the links passed to the sandbox are valid.
const linkLife = 20 * time.Minute

// preparation is the longest time before a task's function begins: the artifact
// is downloaded, an interpreter started, the module imported, inputs are
// downloaded.
const preparation = 15 * time.Minute

var (
	_ Reserver = Python{}
	_ Preparer = Python{}
)

// Instant reports false.
func (Python) Instant() bool { return false }

// Preparation implements [Preparer].
func (p Python) Preparation() (most time.Duration, told bool) {
	starting, ok := p.Sandbox.(sandbox.StartReporter)
	return preparation, ok && starting.TellsStart()
}

// Reserve waits for a slot in the sandbox. It returns at once if the sandbox
// has no limit.
func (p Python) Reserve(ctx context.Context, org string) (release func(), err error) {
	if slots, ok := p.Sandbox.(sandbox.Reserver); ok {
		return slots.Reserve(ctx, org)
	}
	return func() {}, nil
}

// Execute runs the task's entrypoint. Large values are passed by presigned
// links, so the sandbox needs no permissions.
func (p Python) Execute(ctx context.Context, a *Attempt) Result {
	return Masked(ctx, p.Blob, a, p.execute)
}

func (p Python) execute(ctx context.Context, a *Attempt) Result {
	made := &links{}
	req, ended := p.prepare(ctx, a, made)
	if ended != nil {
		return *ended
	}
	box, ok := p.Sandbox.(sandbox.Direct)
	if !ok {
		return Final(SandboxFailed, "the sandbox of this deployment runs no tasks by itself")
	}
	result, err := box.Run(ctx, req, a.Log)
	return p.conclude(ctx, a, result, err, made)
}

// prepare returns the request of an attempt, or what ends the attempt instead.
func (p Python) prepare(ctx context.Context, a *Attempt, made *links) (req sandbox.Request, ended *Result) {
	end := func(r Result) (sandbox.Request, *Result) { return sandbox.Request{}, &r }
	if p.Sandbox == nil {
		return end(Final(SandboxFailed, "this deployment runs no Python tasks"))
	}
	if !p.Serves(a.Mode) { // it was removed after the run was accepted
		return end(Final(SandboxFailed, "the runtime tier %s; start a run with one of them", p.Tiers.Lacks(tier.Tier(a.Mode))))
	}
	if a.Artifact == "" {
		return end(Final(TaskFailed, "the flow version has no artifact to run %s from", a.Task.Entrypoint))
	}
	req, err := p.request(ctx, a, made)
	_, unevaluated := errors.AsType[*expr.EvalError](err)
	switch {
	case unevaluated:
		return end(trouble(err, "inputs"))
	case err != nil && permanent(err):
		return end(Final(SandboxFailed, "%v", err))
	case err != nil:
		return end(NotStarted(err))
	}
	if req.Secrets, err = a.secrets(); err != nil {
		return end(trouble(err, "config"))
	}
	return req, nil
}

// conclude returns the result of an attempt, given that of its sandbox.
func (p Python) conclude(ctx context.Context, a *Attempt, result sandbox.Result, err error, made *links) Result {
	if err != nil {
		if ctx.Err() != nil {
			return Failed(Cancelled, "%v", context.Cause(ctx))
		}
		text := made.hide(err.Error())
		switch {
		case permanent(err):
			return Final(SandboxFailed, "%s", text)
		case errors.Is(err, sandbox.ErrUnavailable):
			return NotStarted(errors.New(text))
		}
		return Failed(SandboxFailed, "%s", text)
	}
	if f := result.Failure; f != nil {
		return Result{Failure: &Failure{
			Type: f.Type, Message: f.Message, Exception: f.Exception, Traceback: f.Traceback, TimedOut: f.Type == sandbox.TaskTimeoutError,
		}}
	}
	if result.Uploaded {
		return p.uploaded(ctx, a)
	}
	return Result{Output: Value{JSON: result.Output, Size: int64(len(result.Output))}}
}

// mostChecked is the largest output that is checked to be JSON: those that
// expressions may read. Larger ones are read only by user code.
const mostChecked = 16 << 20

// uploaded returns the result of a task whose output was uploaded by its link.
// The task's code could claim an upload that it did not make, or upload what is
// not JSON. The object is therefore read, at the cost of that request.
func (p Python) uploaded(ctx context.Context, a *Attempt) Result {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		size, err := p.inspect(ctx, a)
		refusal, refused := errors.AsType[sandbox.OutputError](err)
		switch {
		case err == nil:
			return Result{Output: Value{Ref: a.OutputKey, Size: size}}
		case ctx.Err() != nil:
			return Failed(Cancelled, "%v", context.Cause(ctx))
		case errors.Is(err, blob.ErrNotFound):
			return Failed(Serialization, "the task says that its output is stored, and it is not")
		case errors.Is(err, blob.ErrTooLarge):
			return Failed(Serialization, "the output is %d bytes of JSON; the limit is %d", size, sandbox.MaxOutputBytes)
		case refused:
			return Failed(Serialization, "%v", refusal)
		case permanent(err):
			return Failed(StorageFailed, "reading the output: %v", err)
		}
		// The task has succeeded: a request that the store does not answer is
		// repeated.
		_ = clock.Sleep(ctx, wait) // the next try returns the error of ctx
	}
}

// inspect reads and checks the uploaded output and returns its size. Errors:
// blob.ErrTooLarge, sandbox.OutputError, those of the store and of ctx.
func (p Python) inspect(ctx context.Context, a *Attempt) (int64, error) {
	body, object, err := p.Blob.Get(ctx, a.OutputKey, nil)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	switch {
	case object.Size > sandbox.MaxOutputBytes:
		return object.Size, blob.ErrTooLarge
	case object.Size > mostChecked:
		return object.Size, nil
	}
	return object.Size, p.check(ctx, a, body, object.Size)
}

// check reads an output and checks that it is JSON. A string in it is in memory
// as a whole meanwhile, and twice while its buffer grows.
func (p Python) check(ctx context.Context, a *Attempt, body io.Reader, size int64) error {
	if size > smallAnswer && a.Hold != nil {
		if err := a.Hold(ctx, 2*size); err != nil {
			return err
		}
	}
	return sandbox.CheckOutputFrom(body)
}

func (p Python) request(ctx context.Context, a *Attempt, made *links) (sandbox.Request, error) {
	req := sandbox.Request{
		Workspace: a.Org, Tier: a.Mode, RunID: a.RunID, FlowName: a.Flow, FlowVersion: a.Version,
		TaskName: a.Task.Name, TaskRunID: a.TaskRunID, Attempt: a.Number, MapIndex: a.MapIndex, Item: a.Item,
		Artifact: sandbox.Artifact{Hash: artifactName(a)}, Entrypoint: a.Task.Entrypoint,
		Params: a.Params, TraceParent: a.Trace.String(), Timeout: a.Timeout, Reserved: a.Reserved, Begin: a.Begin, OnlyInputs: a.Task.HasInputs(),
	}
	req.Artifact.URL = made.link("link to the artifact", func(ctx context.Context) (string, error) {
		return p.Blob.PresignGet(ctx, a.Artifact, linkLife, "")
	})
	req.OutputURL = made.link("link for the output", func(ctx context.Context) (string, error) {
		return p.Blob.PresignPut(ctx, a.OutputKey, linkLife)
	})
	req.Files = p.files(a, made)
	if a.Failed != nil {
		failed, err := a.Failed(ctx)
		if err != nil {
			return req, fmt.Errorf("what failed: %w", err)
		}
		req.Failed, req.FailedCount = failed.List, failed.Count
	}
	var err error
	if req.OnlyInputs {
		req.Inputs, err = p.arguments(ctx, a, made)
		return req, err
	}
	req.Inputs = make(map[string]sandbox.Input, len(a.Task.DependsOn))
	for _, name := range a.Task.DependsOn {
		if req.Inputs[name], err = p.output(ctx, a, made, name); err != nil {
			return req, err
		}
	}
	return req, nil
}

// output returns the output of a task, by value or by link.
func (p Python) output(ctx context.Context, a *Attempt, made *links, name string) (sandbox.Input, error) {
	v, err := a.Output(ctx, name)
	if err != nil {
		return sandbox.Input{}, fmt.Errorf("output of %s: %w", name, err)
	}
	in := sandbox.Input{Value: v.JSON}
	if v.JSON == nil {
		in.URL = made.link("link to the output of "+name, func(ctx context.Context) (string, error) {
			return p.Blob.PresignGet(ctx, v.Ref, linkLife, "")
		})
	}
	return in, nil
}

// MaxArguments is the largest size of a task's inputs together, in bytes of
// JSON, without those that are another task's whole output.
const MaxArguments = 4 << 20

// arguments returns the task's inputs. Errors: an [expr.EvalError] if one has
// no value, or if they are too large together.
func (p Python) arguments(ctx context.Context, a *Attempt, made *links) (map[string]sandbox.Input, error) {
	given, err := a.Task.Arguments()
	if err != nil {
		return nil, &expr.EvalError{Msg: err.Error()}
	}
	scope, err := a.Scope(ctx, given.Values.Tasks())
	if err != nil {
		return nil, err
	}
	if err := a.item(&scope); err != nil {
		return nil, err
	}
	v, err := given.Values.Render(ctx, scope, nil)
	if err != nil {
		return nil, err
	}
	values, _ := v.(map[string]any) // the template is an object's
	out, size := make(map[string]sandbox.Input, len(values)+len(given.Outputs)), 0
	for name, value := range values {
		raw, err := expr.Encode(value)
		if err != nil {
			return nil, &expr.EvalError{Msg: fmt.Sprintf("%s: %v", name, err)}
		}
		if size += len(raw); size > MaxArguments {
			return nil, &expr.EvalError{Msg: fmt.Sprintf("they have more than %d bytes in all; hand on a task's whole output instead, as ${{ tasks.extract.output }}", MaxArguments)}
		}
		out[name] = sandbox.Input{Value: raw}
	}
	if a.Hold != nil { // the outputs that were read may be freed
		if err := a.Hold(ctx, int64(size)); err != nil {
			return nil, err
		}
	}
	for name, task := range given.Outputs {
		if out[name], err = p.output(ctx, a, made, task); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// artifactName returns the identifier of the code's content. Keys of artifacts
// are never written again, so a key serves where the hash is unknown.
func artifactName(a *Attempt) string {
	return noSeparators.Replace(a.Artifact)
}

var noSeparators = strings.NewReplacer("/", "-", "#", "-")

// links records the presigned links made for an attempt.
type links struct {
	mu   sync.Mutex
	made []string
}

// link returns a sandbox.Link; what is its name in errors.
func (l *links) link(what string, sign sandbox.Link) sandbox.Link {
	return func(ctx context.Context) (string, error) {
		link, err := sign(ctx)
		if err != nil {
			return "", fmt.Errorf("%s: %w", what, err)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.made = append(l.made, link)
		return link, nil
	}
}

// hide removes the links from a message, because they are credentials.
func (l *links) hide(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, link := range l.made {
		text = strings.ReplaceAll(text, link, "(link)")
	}
	return text
}

// secrets resolves the secrets named in the task's config.
func (a *Attempt) secrets() (map[string]string, error) {
	template, err := a.Task.Template()
	if err != nil {
		return nil, err
	}
	var found map[string]string
	for _, name := range template.Secrets() {
		v, err := a.Secret(name)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		if found == nil {
			found = map[string]string{}
		}
		found[name] = v
	}
	return found, nil
}
