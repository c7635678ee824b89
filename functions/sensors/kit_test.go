package sensors_test

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

// brokenTable is a table whose transactions fail at times.
type brokenTable struct {
	table.Table
	fails atomic.Bool
}

func (b *brokenTable) Transact(ctx context.Context, writes ...table.Write) error {
	if b.fails.Load() {
		return errors.New("broken")
	}
	return b.Table.Transact(ctx, writes...)
}

// traces returns the exception traces.
func (w *world) traces() (out []string) {
	w.t.Helper()
	found, _, err := w.Deps.Blob.List(w.t.Context(), httpapi.TracePrefix, "", 100)
	require.NoError(w.t, err)
	for _, o := range found {
		data, _, err := blob.GetBytes(w.t.Context(), w.Deps.Blob, o.Key, 1<<20)
		require.NoError(w.t, err)
		out = append(out, string(data))
	}
	return out
}
