package executor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"millrace/shared/kit/mask"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/run/expr"
	"millrace/shared/run/sandbox"
)

// Masked runs do on an attempt with all its functions set, and masks the
// secrets that it resolves in its log lines, its output and its failure. Every
// executor that renders a config works within it. store contains outputs that
// are objects; it is nil if do makes none.
func Masked(ctx context.Context, store blob.Store, a *Attempt, do func(context.Context, *Attempt) Result) Result {
	own := *a
	own.hidden = &mask.Masker{}
	own.Secret = func(name string) (string, error) {
		if a.Secret == nil {
			return "", errs.New(errs.NotFound, "there is no secret named %s", name)
		}
		v, err := a.Secret(name)
		if err == nil {
			own.hidden.Add(v)
		}
		return v, err
	}
	own.Log = func(e sandbox.LogEvent) {
		if a.Log != nil {
			e.Logger, e.Message, e.Fields = own.hidden.String(e.Logger), own.hidden.String(e.Message), own.hidden.JSON(e.Fields)
			a.Log(e)
		}
	}
	if own.Begin == nil {
		own.Begin = func(time.Duration) {}
	}
	if own.Scope == nil {
		own.Scope = func(context.Context, []string) (expr.Scope, error) { return expr.Scope{}, nil }
	}
	if own.Output == nil {
		own.Output = func(_ context.Context, task string) (Value, error) {
			return Value{}, fmt.Errorf("there is no output of %s", task)
		}
	}
	r := do(ctx, &own)
	if own.hidden.Empty() {
		return r
	}
	if r.Failure != nil {
		f := *r.Failure
		f.Message, f.Exception, f.Traceback = own.hidden.String(f.Message), own.hidden.String(f.Exception), own.hidden.String(f.Traceback)
		r.Failure = &f
	}
	r.Unstarted = own.hidden.String(r.Unstarted)
	if r.Output.JSON != nil {
		r.Output.JSON = own.hidden.JSON(r.Output.JSON)
		r.Output.Size = int64(len(r.Output.JSON))
	}
	if r.Output.Ref != "" && store != nil {
		out, err := rewrite(ctx, store, own.hidden, r.Output)
		if err != nil {
			return Failed(SandboxFailed, "the output could not be masked: %v", err)
		}
		r.Output = out
	}
	return r
}

// rewrite masks an output that is an object, if necessary. The masked object
// has another key, to which the task had no link.
func rewrite(ctx context.Context, store blob.Store, m *mask.Masker, v Value) (Value, error) {
	size, hit := int64(0), false
	err := masked(ctx, store, m, v.Ref, func(r io.Reader, found func() bool) (err error) {
		size, err = io.Copy(io.Discard, r)
		hit = found()
		return err
	})
	if err != nil || !hit {
		return v, err
	}
	out := Value{Ref: strings.TrimSuffix(v.Ref, ".json") + "-masked.json", Size: size}
	err = masked(ctx, store, m, v.Ref, func(r io.Reader, _ func() bool) error {
		_, err := store.Put(ctx, out.Ref, r, size, blob.PutOptions{ContentType: "application/json"})
		return err
	})
	if err != nil {
		return v, err
	}
	return out, store.Delete(ctx, v.Ref)
}

func masked(ctx context.Context, store blob.Store, m *mask.Masker, key string, do func(io.Reader, func() bool) error) error {
	body, _, err := store.Get(ctx, key, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	return do(m.JSONReader(body))
}
