package sensors_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/table"
)

// TestHeadersAreSealed: what is stored and shown of headers are their names, and
// polls and tests send their values. Those of sensors of earlier versions, whose
// values are stored plain, are sent and masked as well.
func TestHeadersAreSealed(t *testing.T) {
	t.Parallel()
	const credential = "Bearer s3cret <&>"
	for name, plain := range map[string]bool{"sealed": false, "of an earlier version": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var got []string
			source := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, r.Header.Get("Authorization")+" "+r.Header.Get("X-Other"))
			}))
			t.Cleanup(source.Close)
			w := openLocal(t, localtest.Options{})
			before := w.AuditCount(t, w.A.OrgID)
			masked := object{"Authorization": "***", "X-Other": "***"}
			made := w.polls(source.URL, object{"headers": object{"Authorization": credential, "X-Other": "other"}})
			key := table.Key{PK: w.A.OrgID + "#sensors", SK: made}
			stored := func() map[string]string {
				item, err := table.Load[struct {
					table.Key
					Config struct {
						Headers map[string]string `table:"headers"`
					} `table:"config"`
				}](t.Context(), w.Deps.Table, key, table.Consistent)
				require.NoError(t, err)
				return item.Config.Headers
			}
			if plain {
				_, err := w.Deps.Table.Update(t.Context(), table.Update{Key: key, Do: []table.Action{
					table.Remove("headers"),
					table.Set("config", struct {
						URL     string            `table:"url"`
						Path    string            `table:"path"`
						Headers map[string]string `table:"headers"`
					}{source.URL, "ready", map[string]string{"Authorization": credential, "X-Other": "other"}}),
				}})
				require.NoError(t, err)
				assert.Equal(t, credential, stored()["Authorization"])
			} else {
				assert.Equal(t, map[string]string{"Authorization": "***", "X-Other": "***"}, stored())
			}
			assert.Equal(t, masked, w.get(made).Require(t, 200).Get(t, "config_json", "headers"))
			assert.NotContains(t, string(w.Do(t, w.A.Key, "GET", "/sensors", nil).Require(t, 200).Body), "s3cret")
			w.Do(t, w.A.Key, "POST", "/sensors/"+made+"/test", nil).Require(t, 200)
			assert.Equal(t, 1, w.poll())
			w.tells(made, object{"last_status": json.Number("200")})
			assert.Equal(t, []string{credential + " other", credential + " other"}, got)
			w.Do(t, w.A.Key, "DELETE", "/sensors/"+made, nil).Require(t, 200)
			entries := w.Audit(t, w.A.OrgID)[before:]
			require.Len(t, entries, 2)
			for _, entry := range entries {
				text := fmt.Sprint(entry.Before, entry.After)
				assert.Contains(t, text, `"X-Other":"***"`)
				assert.NotContains(t, text, "s3cret")
			}
		})
	}
}

// TestHeadersThatDoNotOpen, because the vault has other keys than those that sealed
// them, are told, and the sensor is polled no more often than otherwise.
func TestHeadersThatDoNotOpen(t *testing.T) {
	t.Parallel()
	w := openLocal(t, localtest.Options{})
	source := newSource(t, `{"ready":true}`)
	id := w.polls(source.URL, object{"headers": object{"X-Key": "v"}})
	_, err := w.Deps.Table.Update(t.Context(), table.Update{
		Key: table.Key{PK: w.A.OrgID + "#sensors", SK: id}, Do: []table.Action{table.Set("headers", []byte("of another key"))},
	})
	require.NoError(t, err)
	const reason = "the headers cannot be opened with the vault's keys: create the sensor anew"
	tested := w.Do(t, w.A.Key, "POST", "/sensors/"+id+"/test", nil).Require(t, 200)
	assert.Equal(t, []any{false, reason}, []any{tested.Get(t, "would_trigger"), tested.Get(t, "reason")})
	assert.Equal(t, 1, w.poll())
	w.tells(id, object{"last_error": reason, "next_poll_at": minute(5)})
	assert.Zero(t, source.requests())
	w.Clock.Advance(time.Minute)
	assert.Zero(t, w.poll())
}
