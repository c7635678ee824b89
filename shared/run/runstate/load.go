package runstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// MaxInput is the most bytes an [Input] may have.
const MaxInput = 8 << 20

// GetRun reads a run's record, consistently. Errors: errs.NotFound.
func GetRun(ctx context.Context, t table.Table, org, run string) (Run, error) {
	r, err := table.Load[Run](ctx, t, RunKey(org, run), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return Run{}, errs.New(errs.NotFound, "Run not found: %s", run)
	}
	return r, err
}

// LoadInput reads what a run was accepted with.
func LoadInput(ctx context.Context, t table.Table, b blob.Store, org, run string) (*Input, error) {
	item, err := table.Load[InputItem](ctx, t, InputKey(org, run), table.Consistent)
	if err != nil {
		return nil, fmt.Errorf("read input of run %s: %w", run, err)
	}
	data := []byte(item.Data)
	if item.Ref != "" {
		if data, _, err = blob.GetBytes(ctx, b, item.Ref, MaxInput); err != nil {
			return nil, fmt.Errorf("read input of run %s: %w", run, err)
		}
	}
	var in Input
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("read input of run %s: %w", run, err)
	}
	return &in, nil
}

// StoreInput makes the item of an input; a large one goes to the object store
// before the item is returned.
func StoreInput(ctx context.Context, b blob.Store, org, run string, in *Input) (InputItem, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return InputItem{}, fmt.Errorf("encode input: %w", err)
	}
	item := InputItem{Key: InputKey(org, run)}
	if buf.Len() <= MaxInline {
		item.Data = buf.String()
		return item, nil
	}
	item.Ref = Object(org, run, "input.json")
	if _, err := blob.PutBytes(ctx, b, item.Ref, buf.Bytes(), blob.PutOptions{ContentType: "application/json"}); err != nil {
		return InputItem{}, fmt.Errorf("store input: %w", err)
	}
	return item, nil
}
