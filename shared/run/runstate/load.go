package runstate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// MaxInput is the largest [Input] in bytes.
const MaxInput = 8 << 20

// GetRun reads a run's record as of now, consistently. Errors: errs.NotFound,
// also for a run that has expired.
func GetRun(ctx context.Context, t table.Table, org, run string, now time.Time) (Run, error) {
	r, err := table.Load[Run](ctx, t, RunKey(org, run), table.Consistent)
	if errors.Is(err, table.ErrNotFound) || err == nil && r.Expired(now) {
		return Run{}, errs.New(errs.NotFound, "Run not found: %s", run)
	}
	return r, err
}

// LoadResult reads the result of a run; nil if it has none.
func LoadResult(ctx context.Context, t table.Table, org, run string) (*Result, error) {
	r, err := table.Load[Result](ctx, t, ResultKey(org, run), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read result of run %s: %w", run, err)
	}
	return &r, nil
}

// FindSlug returns the ids of a workspace's runs with a slug, newest first, of
// runs accepted before now. It reads the keys of the runs of a few minutes in
// every 25 days since the workspace's first run.
func FindSlug(ctx context.Context, t table.Table, org, slug string, now time.Time) ([]string, error) {
	if !ids.IsSlug(slug) {
		return nil, nil
	}
	all := table.Query{Index: ListIndex("", ""), PK: ListPartition(org, "", ""), Limit: 1}
	page, err := t.Query(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("look up run %s: %w", slug, err)
	}
	if len(page.Items) == 0 {
		return nil, nil
	}
	first, _ := page.Items[0].Entry(all.Index)
	since, _ := ids.Time(first.SK)
	var found []string
	for _, span := range ids.SlugTimes(slug, since, now) {
		q := table.Query{Index: all.Index, PK: all.PK, Range: table.Between(ids.First(span[0]), ids.First(span[1]))}
		for item, err := range table.All(ctx, t, q) {
			if err != nil {
				return nil, fmt.Errorf("look up run %s: %w", slug, err)
			}
			if entry, _ := item.Entry(q.Index); ids.SlugOf(entry.SK) == slug {
				found = append(found, entry.SK)
			}
		}
	}
	return found, nil
}

// LoadInput reads the input of a run.
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

// StoreInput returns the item of an input. A large input is stored in the
// object store first.
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
