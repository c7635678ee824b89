package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"millrace/shared/blob"
	"millrace/shared/registry"
	"millrace/shared/runstate"
)

// The sizes of a run's detail.
const (
	inlineOutputs = 1 << 20 // bytes of outputs in it
	inlineText    = 1 << 20 // bytes of error messages in full
	shortText     = 200     // bytes of an error message beyond that
)

// outputs decides how each output of a run is shown. Small outputs that find no
// more room in the answer go to one object, a JSON object by task_run_id, if
// the run has ended; its URI points into it.
type outputs struct {
	store blob.Store
	run   *runstate.Run
	left  int // bytes that may still be inlined

	spill *io.PipeWriter
	sep   string
	done  chan error
}

func (o *outputs) key() string { return runstate.Object(o.run.Org, o.run.ID, "outputs.json") }

// show sets the output of a record.
func (o *outputs) show(ctx context.Context, t *TaskRun, item *runstate.Node) error {
	switch {
	case item.OutputRef != "":
		t.OutputURI = ptr(registry.ArtifactURI(item.OutputRef))
	case item.Output == "":
	case len(item.Output) <= o.left:
		o.left -= len(item.Output)
		t.Output = json.RawMessage(item.Output)
	case o.run.Status.RunEnded():
		t.OutputURI = ptr(registry.ArtifactURI(o.key()) + "#/" + t.TaskRunID)
		return o.keep(ctx, t.TaskRunID, item.Output)
	}
	return nil
}

// keep adds an output to the object.
func (o *outputs) keep(ctx context.Context, id, output string) error {
	if o.spill == nil {
		var body *io.PipeReader
		body, o.spill = io.Pipe()
		o.sep, o.done = "{", make(chan error, 1)
		go func() {
			_, err := o.store.Put(ctx, o.key(), body, -1, blob.PutOptions{ContentType: "application/json"})
			_ = body.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // whoever still writes learns of it
			o.done <- err
		}()
	}
	_, err := fmt.Fprintf(o.spill, "%s%q:%s", o.sep, id, output)
	o.sep = ","
	if err != nil {
		return fmt.Errorf("store outputs of run %s: %w", o.run.ID, err)
	}
	return nil
}

// close completes the object, if there is one.
func (o *outputs) close() error {
	if o.spill == nil {
		return nil
	}
	_, err := io.WriteString(o.spill, "}")
	_ = o.spill.Close()
	if err = errors.Join(err, <-o.done); err != nil {
		return fmt.Errorf("store outputs of run %s: %w", o.run.ID, err)
	}
	return nil
}

// abort gives the object up; harmless after close.
func (o *outputs) abort() {
	if o.spill != nil {
		_ = o.spill.CloseWithError(context.Canceled)
	}
}
