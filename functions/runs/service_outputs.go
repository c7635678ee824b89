package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"millrace/shared/platform/blob"
	"millrace/shared/run/registry"
	"millrace/shared/run/runstate"
)

// Limits of a run's detail.
const (
	inlineOutputs = 1 << 20 // bytes of outputs in it
	inlineText    = 1 << 20 // bytes of error messages in full
	shortText     = 200     // bytes of an error message beyond that
	spillBytes    = 4 << 20 // of outputs kept in one object
	readers       = 16      // objects read at once
)

// outputs decides how each output of a run is shown, by the sizes in the items,
// so that all responses of an ended run are equal. When the run has ended,
// small outputs for which the response has no room are stored in objects, each
// a JSON object by task_run_id. Their URIs refer to these.
type outputs struct {
	store   blob.Store
	run     *runstate.Run
	left    int               // bytes that may still be inlined
	objects map[string]object // outputs to be inlined that are objects, by task_run_id

	spill  bytes.Buffer // contents of the next object so far
	number int          // of the next object
}

// object is an output in the object store.
type object struct {
	key  string
	size int64
}

func (o *outputs) key() string {
	return runstate.Object(o.run.Org, o.run.ID, fmt.Sprintf("out/spill-%d.json", o.number))
}

// show sets the output of a record.
func (o *outputs) show(ctx context.Context, t *TaskRun, item *runstate.Node) error {
	switch {
	case item.OutputRef != "":
		t.OutputURI = ptr(registry.ArtifactURI(item.OutputRef))
		// An object counts at least as much as the largest output in an item, so that
		// a response needs few reads whatever the sizes are said to be.
		if room := max(item.OutputSize, runstate.MaxInline); room <= int64(o.left) {
			o.left -= int(room)
			if o.objects == nil {
				o.objects = map[string]object{}
			}
			o.objects[t.TaskRunID] = object{item.OutputRef, item.OutputSize}
		}
	case item.Output == "":
	case len(item.Output) <= o.left:
		o.left -= len(item.Output)
		t.Output = json.RawMessage(item.Output)
	case o.run.Status.RunEnded():
		if o.spill.Len() > spillBytes {
			if err := o.flush(ctx); err != nil {
				return err
			}
		}
		t.OutputURI = ptr(registry.ArtifactURI(o.key()) + "#/" + t.TaskRunID)
		sep := ","
		if o.spill.Len() == 0 {
			sep = "{"
		}
		fmt.Fprintf(&o.spill, "%s%q:%s", sep, t.TaskRunID, item.Output)
	}
	return nil
}

// fetch reads the outputs to be inlined that are objects, concurrently. One
// that cannot be read, or does not match its item, because user code wrote it,
// keeps its URI.
func (o *outputs) fetch(ctx context.Context, log *slog.Logger, tasks []TaskRun) {
	var reads errgroup.Group
	reads.SetLimit(readers)
	for i := range tasks {
		t := &tasks[i]
		at, ok := o.objects[t.TaskRunID]
		if !ok {
			continue
		}
		reads.Go(func() error {
			data, _, err := blob.GetBytes(ctx, o.store, at.key, at.size)
			switch {
			case err != nil && ctx.Err() == nil:
				log.WarnContext(ctx, "output not inlined", "run_id", o.run.ID, "object", at.key, "error", err)
			case err == nil && utf8.Valid(data) && json.Valid(data):
				t.Output, t.OutputURI = data, nil
			}
			return nil
		})
	}
	_ = reads.Wait()
}

// flush stores the object, unless an earlier response has: outputs of an ended
// run do not change.
func (o *outputs) flush(ctx context.Context) error {
	if o.spill.Len() == 0 {
		return nil
	}
	o.spill.WriteByte('}')
	defer o.spill.Reset()
	defer func() { o.number++ }()
	stored, err := o.store.Head(ctx, o.key())
	if err == nil && stored.Size == int64(o.spill.Len()) {
		return nil
	}
	if err == nil || errors.Is(err, blob.ErrNotFound) {
		_, err = blob.PutBytes(ctx, o.store, o.key(), o.spill.Bytes(), blob.PutOptions{ContentType: "application/json"})
	}
	if err != nil {
		return fmt.Errorf("store outputs of run %s: %w", o.run.ID, err)
	}
	return nil
}
