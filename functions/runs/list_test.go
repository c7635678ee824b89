package runs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

var epoch = time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)

// history stores n runs, created a second apart from epoch on, and returns
// their ids, the newest first. Every second run is of flow even, every third in
// prod.
func (w world) history(t *testing.T, n int) []string {
	t.Helper()
	writes, out := make([]table.Write, n), make([]string, n)
	for i := range n {
		at := epoch.Add(time.Duration(i) * time.Second)
		id, flow, env := ids.New(at), "odd", "default"
		if i%2 == 0 {
			flow = "even"
		}
		if i%3 == 0 {
			env = "prod"
		}
		writes[i] = table.Put{Item: runstate.Run{
			Key: runstate.RunKey(w.A.OrgID, id), ListEntries: runstate.Lists(w.A.OrgID, flow, env, id),
			Org: w.A.OrgID, ID: id, Slug: "s", Flow: flow, Version: "1", Environment: env, Mode: "nano", Trigger: "manual",
			Status: engine.Succeeded, CreatedAt: clock.ToMillis(at),
		}}
		out[n-1-i] = id
	}
	require.NoError(t, w.Deps.Table.BatchWrite(t.Context(), writes))
	return out
}

func (w world) list(t *testing.T, query string) []string {
	t.Helper()
	res := w.Do(t, w.A.Key, "GET", "/runs"+query, nil).Require(t, 200)
	out := []string{}
	for _, item := range res.Items(t) {
		out = append(out, item.(object)["run_id"].(string))
	}
	return out
}

func TestRunList(t *testing.T) {
	t.Parallel()
	w := idle(t)
	assert.Equal(t, []string{}, w.list(t, ""))
	assert.JSONEq(t, `{"items":[]}`, string(w.Do(t, w.A.Key, "GET", "/runs", nil).Body))
	all := w.history(t, 600) // all[i] was created at epoch + (599-i) s
	made := func(i int) int { return 599 - i }
	pick := func(keep func(n int) bool) []string {
		out := []string{}
		for i, id := range all {
			if keep(made(i)) {
				out = append(out, id)
			}
		}
		return out
	}
	at := func(n int, d time.Duration) string {
		return url.QueryEscape(epoch.Add(time.Duration(n)*time.Second + d).Format(time.RFC3339Nano))
	}
	east := time.FixedZone("", 2*60*60)
	for query, want := range map[string][]string{
		"":                                     all,
		"?limit=":                              all,
		"?limit=1":                             all[:1],
		"?limit=0":                             all[:1],
		"?limit=-7":                            all[:1],
		"?limit=101":                           all[:101],
		"?limit=500":                           all[:500],
		"?limit=9999":                          all[:500],
		"?flow_name=even":                      pick(func(n int) bool { return n%2 == 0 }),
		"?environment=prod":                    pick(func(n int) bool { return n%3 == 0 }),
		"?flow_name=odd&environment=prod":      pick(func(n int) bool { return n%6 == 3 }),
		"?flow_name=odd&environment=default":   pick(func(n int) bool { return n%2 == 1 && n%3 != 0 }),
		"?flow_name=nope":                      {},
		"?since=" + at(590, 0):                 pick(func(n int) bool { return n >= 590 }),
		"?since=" + at(590, 1):                 pick(func(n int) bool { return n > 590 }), // created_at has milliseconds
		"?since=" + at(590, -1):                pick(func(n int) bool { return n >= 590 }),
		"?since=" + at(599, time.Second):       {},
		"?since=9999-12-31T23:59:59Z":          {},
		"?since=1969-01-01T00:00:00Z&limit=2":  all[:2],
		"?since=2026-03-04&limit=500":          all[:500],
		"?since=2026-03-04T05:09:50":           pick(func(n int) bool { return n >= 590 }),
		"?since=2026-03-04%2005:09:50":         pick(func(n int) bool { return n >= 590 }),
		"?since=2026-03-04T07:09:50+02:00":     pick(func(n int) bool { return n >= 590 }), // the plus sign unescaped
		"?since=2026-03-04%2007:09:50%2B02:00": pick(func(n int) bool { return n >= 590 }),
		"?flow_name=even&limit=3&since=" + url.QueryEscape(epoch.In(east).Format(time.RFC3339)): pick(func(n int) bool { return n%2 == 0 })[:3],
	} {
		assert.Equal(t, want, w.list(t, query), query)
	}
}

func TestUnboundedListIsStreamed(t *testing.T) {
	t.Parallel()
	var pages, records atomic.Int32
	proceed := make(chan struct{})
	w := idle(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		return &watched{Table: inner, onList: func(q table.Query) error {
			assert.LessOrEqual(t, q.Limit, 100)
			if pages.Add(1) > 1 {
				<-proceed // until the first page has reached the client
			}
			return nil
		}, onBatch: func(n int) {
			assert.LessOrEqual(t, n, 100)
			records.Add(int32(n))
		}}
	}})
	all := w.history(t, 3000)
	server := httptest.NewServer(w.API.Handler())
	defer server.Close()
	res := w.open(t, server.URL+"/runs")
	defer res.Body.Close()
	d := json.NewDecoder(res.Body)
	for range 2 { // {"items":[
		_, err := d.Token()
		require.NoError(t, err)
	}
	_, err := d.Token()
	require.NoError(t, err)
	var got []string
	for d.More() {
		var item struct {
			RunID string `json:"run_id"`
		}
		require.NoError(t, d.Decode(&item))
		if got = append(got, item.RunID); len(got) == 1 {
			assert.EqualValues(t, 100, records.Load(), "the client reads while the rest is still stored")
			close(proceed)
		}
	}
	assert.Equal(t, all, got)
	_, err = d.Token()
	require.NoError(t, err)
	_, err = d.Token()
	require.NoError(t, err)
	_, err = d.Token()
	assert.ErrorIs(t, err, io.EOF)
}

func TestFailedListIsTruncated(t *testing.T) {
	t.Parallel()
	var pages, failFrom atomic.Int32
	failFrom.Store(3)
	w := idle(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		return &watched{Table: inner, onList: func(table.Query) error {
			if pages.Add(1) >= failFrom.Load() {
				return table.ErrThrottled
			}
			return nil
		}}
	}, Log: discard})
	w.history(t, 400)
	server := httptest.NewServer(w.API.Handler())
	defer server.Close()
	res := w.open(t, server.URL+"/runs")
	defer res.Body.Close()
	assert.Equal(t, 200, res.StatusCode)
	data, err := io.ReadAll(res.Body)
	assert.Error(t, err, "the client must not take it for whole")
	assert.Equal(t, 200, strings.Count(string(data), `"run_id"`))

	failFrom.Store(0)
	assert.Equal(t, 503, w.Do(t, w.A.Key, "GET", "/runs", nil).Code, "before it begins, a failure has its status")
}

// open begins a GET over the network.
func (w world) open(t *testing.T, url string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+w.A.Key)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	return res
}

// watched is a table that calls a hook before it reads run lists.
type watched struct {
	table.Table
	onList  func(table.Query) error
	onBatch func(n int)
}

func (w *watched) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if strings.Contains(q.PK, "#runs#") {
		if err := w.onList(q); err != nil {
			return table.Page{}, fmt.Errorf("query: %w", err)
		}
	}
	return w.Table.Query(ctx, q)
}

func (w *watched) BatchGet(ctx context.Context, keys []table.Key, opts ...table.ReadOption) ([]table.Item, error) {
	if w.onBatch != nil && slices.ContainsFunc(keys, func(k table.Key) bool { return strings.Contains(k.PK, "#run#") }) {
		w.onBatch(len(keys))
	}
	return w.Table.BatchGet(ctx, keys, opts...)
}
