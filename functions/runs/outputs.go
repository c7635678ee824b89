package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/blob"
	"millrace/shared/registry"
	"millrace/shared/runstate"
)

// The sizes of a run's detail.
const (
	inlineOutputs = 1 << 20 // bytes of outputs in it
	inlineText    = 1 << 20 // bytes of error messages in full
	shortText     = 200     // bytes of an error message beyond that
	spillBytes    = 4 << 20 // of outputs kept in one object
)

// outputs decides how each output of a run is shown. Small outputs that find no
// more room in the answer are, once the run has ended, kept in objects of
// their own, each a JSON object by task_run_id; their URIs point into these.
type outputs struct {
	store blob.Store
	run   *runstate.Run
	left  int // bytes that may still be inlined

	spill  bytes.Buffer // what the next object holds so far
	number int          // of the next object
}

func (o *outputs) key() string {
	return runstate.Object(o.run.Org, o.run.ID, fmt.Sprintf("out/spill-%d.json", o.number))
}

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

// flush stores the object, unless an earlier answer has: what an ended run's
// tasks made does not change.
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
