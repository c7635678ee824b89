package localtest

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/pebbletable"
	"millrace/shared/platform/table"
)

// Stored returns every item of the embedded table as JSON, by key. It omits when
// API keys were last used, which every request with a key may change.
func (env *Env) Stored(t testing.TB) map[table.Key]string {
	t.Helper()
	require.NotNil(t, env.db, "the table is not the Env's own")
	out := map[table.Key]string{}
	item := func(i table.Item) error {
		plain := map[string]any{}
		for name, value := range i {
			if name != "last_used_at" {
				plain[name] = value.Any()
			}
		}
		data, err := json.Marshal(plain)
		out[i.Key()] = string(data)
		return err
	}
	entry := func(pebbletable.Entry) error { return nil }
	damaged := func(err error) { require.NoError(t, err) }
	require.NoError(t, pebbletable.Dump(context.Background(), env.db, item, entry, damaged))
	return out
}
