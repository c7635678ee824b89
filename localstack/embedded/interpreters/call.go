//go:build unix

package interpreters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"millrace/shared/run/sandbox"
)

// Errors of an attempt that ended without an answer.
var (
	errNotDelivered = errors.New("the interpreter did not take the request") // it never received it
	errRunner       = errors.New("the sandbox failed")                       // the runner reported it, and survived
)

// call runs one request. Its errors are those of sandbox.Direct.Run.
func (c *interpreter) call(ctx context.Context, req *sandbox.Request, log func(sandbox.LogEvent)) (sandbox.Result, error) {
	timeout := req.Timeout
	if timeout <= 0 {
		timeout = sandbox.DefaultTimeout
	}
	c.buf.Reset()
	n := newNonce()
	importing, begun := c.pool.config.importing, c.begins(req)
	if err := encodeRequest(&c.buf, n, req, timeout, importing, begun); err != nil {
		return sandbox.Result{}, fmt.Errorf("encoding the request: %w", err)
	}
	sink := func(e sandbox.LogEvent) {
		c.logging.Lock()
		defer c.logging.Unlock()
		log(e)
	}
	c.out.start(sink)
	c.err.start(sink)
	bound := &bound{timeout: timeout, fetching: c.pool.config.fetching, begin: req.Begin, begun: begun, reached: map[string]bool{}}
	bound.timer = time.AfterFunc(importing+grace, func() { bound.late.Store(true); c.kill() })
	defer bound.timer.Stop()
	stop := context.AfterFunc(ctx, c.kill)
	c.watch.begin()
	t := transfer{pool: c.pool, to: c.requests, ended: c.ended, nonce: n, inputs: req.Inputs, outputURL: req.OutputURL, files: req.Files, inline: sandbox.MaxOutputBytes}
	if req.OutputURL != nil {
		t.inline = sandbox.InlineBytes
	}
	result, err := c.exchange(ctx, &t, sink, bound)
	if bound.reached[reachedFunction] {
		c.known[req.Entrypoint] = true
	}
	excess := c.watch.end()
	if !stop() {
		c.spent = true // killed, or about to be
	}
	c.out.finish()
	c.err.finish()
	c.shrink()
	c.spent = c.spent || excess != nil
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return sandbox.Result{}, context.Cause(ctx)
	case excess != nil:
		return sandbox.Result{Failure: excess}, nil
	case bound.late.Load():
		c.spent = true
		switch {
		case bound.reached[reachedFunction]:
		case bound.reached[reachedInputs]:
			return sandbox.Result{}, fmt.Errorf("fetching the task's inputs took longer than %g s", c.pool.config.fetching.Seconds())
		default:
			return failed(sandbox.TaskTimeoutError, "importing the module of %s took longer than the %g s that it has, and was killed",
				req.Entrypoint, importing.Seconds()), nil
		}
		return failed(sandbox.TaskTimeoutError, "the task ran past its timeout_secs (%g) and was killed", timeout.Seconds()), nil
	case errors.Is(err, errRunner):
		return sandbox.Result{}, err
	case errors.Is(err, errNotDelivered):
		return sandbox.Result{}, errors.Join(err, c.died(err))
	}
	err = c.died(err)
	if c.group.outOfMemory() {
		return failed(sandbox.TaskFailedError, "%s", c.pool.config.tooMuchMemory(c.key.tier, 0)), nil
	}
	return sandbox.Result{}, err
}

// begins reports whether a task's function begins with the request: the
// interpreter has imported its module, and no input is to be fetched. The child
// then need not report it, which would wake the server once more for each task.
func (c *interpreter) begins(req *sandbox.Request) bool {
	if !c.known[req.Entrypoint] {
		return false
	}
	for _, in := range req.Inputs {
		if in.URL != nil {
			return false
		}
	}
	return true
}

// bound ends an attempt that takes too long, by what it has come to. Each step
// counts once, whatever the task writes.
type bound struct {
	timer    *time.Timer
	late     atomic.Bool
	timeout  time.Duration // of the task's function
	fetching time.Duration // of its inputs
	begin    func(ago time.Duration)
	begun    bool // the function begins with the request
	reached  map[string]bool
}

// reach takes a step that the attempt has come to: its outer time is that of the
// step from then on.
func (b *bound) reach(step string) {
	if b.reached[step] { //guard:sandbox/once false
		return
	}
	b.reached[step] = true
	switch step {
	case reachedInputs:
		b.timer.Reset(b.fetching)
	case reachedFunction:
		b.timer.Reset(b.timeout + grace)
		if b.begin != nil {
			b.begin(0)
		}
	default: // the output is handed over
		b.timer.Reset(uploadTime)
	}
}

func (c *interpreter) exchange(ctx context.Context, t *transfer, sink func(sandbox.LogEvent), b *bound) (sandbox.Result, error) {
	if _, err := c.requests.Write(c.buf.Bytes()); err != nil {
		return sandbox.Result{}, errors.Join(errNotDelivered, err)
	}
	if b.begun {
		b.reach(reachedFunction)
	}
	var output []byte
	for begun := false; ; begun = true {
		kind, size, err := readHead(c.reader, t.nonce)
		if errors.Is(err, errOtherAttempt) && !begun {
			// It is still busy with an earlier request, whose code has forged an answer.
			err = errors.Join(errNotDelivered, err)
		}
		if err != nil {
			return sandbox.Result{}, err
		}
		if kind == frameSave {
			if err := t.save(ctx, c.reader, size); err != nil {
				return sandbox.Result{}, err
			}
			continue
		}
		buf := &c.buf
		if kind == frameOutput {
			if t.takes(size) {
				if err := t.store(ctx, c.reader, size); err != nil {
					return sandbox.Result{}, err
				}
				continue
			}
			if size > t.inline {
				return sandbox.Result{}, fmt.Errorf("%w: an inline output of %d bytes", errProtocol, size)
			}
			buf = new(bytes.Buffer) // the caller keeps the output
		}
		body, err := readBody(c.reader, size, buf)
		if err != nil {
			return sandbox.Result{}, err
		}
		switch kind {
		case frameEvent:
			event, err := decodeEvent(body, c.pool.config.Clock.Now())
			if err != nil {
				return sandbox.Result{}, err
			}
			sink(event)
		case frameReached:
			if step := string(body); step == reachedInputs || step == reachedFunction {
				b.reach(step)
			}
		case frameOver:
			b.reach("over")
		case frameOutput:
			output = body
		case frameFetch:
			if err := t.fetch(ctx, body); err != nil {
				return sandbox.Result{}, err
			}
		case frameOpen:
			if err := t.open(ctx, body); err != nil {
				return sandbox.Result{}, err
			}
		case frameResult:
			return c.result(body, output, t.stored)
		default:
			return sandbox.Result{}, errProtocol
		}
	}
}

func (c *interpreter) result(body, output []byte, stored int64) (sandbox.Result, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return sandbox.Result{}, fmt.Errorf("%w: %w", errProtocol, err)
	}
	// Bytes after the answer are not the runner's.
	c.spent = a.Recycle || c.reader.Buffered() > 0
	switch {
	case a.Error != "":
		return sandbox.Result{}, fmt.Errorf("%w: %s", errRunner, a.Error)
	case a.Failure != nil:
		if !slices.Contains(failureTypes, a.Failure.Type) {
			a.Failure.Type = sandbox.TaskFailedError
		}
		f := a.Failure
		f.Message, f.Exception = clip(f.Message, sandbox.MaxFailure), clip(f.Exception, sandbox.MaxException)
		f.Traceback = clip(f.Traceback, sandbox.MaxTraceback+100) // it has cut it, with a mark
		return sandbox.Result{Failure: a.Failure}, nil
	case stored > 0:
		return sandbox.Result{OutputBytes: stored, Uploaded: true}, nil
	}
	if err := sandbox.CheckOutput(output); err != nil { //guard:sandbox/output drop
		c.spent = true // the runner's own outputs are valid
		return failed(sandbox.ArtifactSerializationError, "%v", err), nil
	}
	return sandbox.Result{Output: output, OutputBytes: int64(len(output))}, nil
}

var failureTypes = []string{sandbox.TaskFailedError, sandbox.TaskTimeoutError, sandbox.ArtifactSerializationError}

// shrink frees the memory of a large frame.
func (c *interpreter) shrink() {
	if c.buf.Cap() > 256<<10 {
		c.buf = bytes.Buffer{}
	}
}
