package runs

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

// answering returns a client of a server that expects requests in order, each with a
// path and a query, and answers them.
func answering(t *testing.T, turns [][2]string) *client.Client {
	t.Helper()
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !assert.Less(t, next, len(turns), "one request too many: %s", r.URL) {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		want, err := url.Parse(turns[next][0])
		assert.NoError(t, err)
		assert.Equal(t, want.Path, r.URL.Path)
		assert.Equal(t, want.Query(), r.URL.Query())
		fmt.Fprint(w, turns[next][1])
		next++
	}))
	t.Cleanup(func() {
		server.Close()
		assert.Equal(t, len(turns), next, "requests")
	})
	return &client.Client{BaseURL: server.URL}
}

// TestListFollowsNextUntil covers a server that searches a part of the history per
// request.
func TestListFollowsNextUntil(t *testing.T) {
	t.Parallel()
	o := listing{status: "failed", flow: "etl", deployment: "nightly", environment: "prod", limit: 3}
	query, err := o.query()
	require.NoError(t, err)
	filters := "status=FAILED&flow_name=etl&deployment=nightly&environment=prod"
	api := answering(t, [][2]string{
		{"/runs?limit=3&" + filters, `{"items": [], "next_until": "2026-01-02T00:00:00Z"}`},
		{"/runs?limit=3&until=2026-01-02T00:00:00Z&" + filters, `{"items": [{"run_id": "1"}, {"run_id": "2"}], "next_until": "2026-01-01T00:00:00Z"}`},
		{"/runs?limit=1&until=2026-01-01T00:00:00Z&" + filters, `{"items": [{"run_id": "3"}], "next_until": "2025-01-01T00:00:00Z"}`},
	})
	items, err := list(t.Context(), api, query, o.limit)
	require.NoError(t, err)
	assert.Len(t, items, 3)

	_, err = (&listing{status: "done", limit: 1}).query()
	require.ErrorContains(t, err, `not "done"`)
	for _, wrong := range []listing{{status: "done", limit: 1}, {limit: 0}, {limit: 501}, {since: "soon", limit: 1}} {
		_, err := wrong.query()
		assert.Equal(t, command.WrongUsage, command.Code(err), "%+v", wrong)
	}
}

// TestLogsContinueAfterEmptyPage reads the log of an ended run, of whose second page
// no event matches the filter.
func TestLogsContinueAfterEmptyPage(t *testing.T) {
	t.Parallel()
	o := reading{task: "price[3]", level: "WARN", since: "2026-01-02T03:04:05Z"}
	require.NoError(t, o.check())
	filters := "task_name=price&level=warning&since=2026-01-02T03:04:05Z"
	event := func(index int, text string) string {
		return fmt.Sprintf(`{"task_name": "price", "map_index": %d, "level": "error", "message": %q, "timestamp": "2026-01-02T03:04:06Z"}`, index, text)
	}
	api := answering(t, [][2]string{
		{"/runs/r/logs?next_token=&" + filters, `{"events": [` + event(3, "first") + `,` + event(4, "another") + `], "next_token": "a"}`},
		{"/runs/r/logs?next_token=a&" + filters, `{"events": [], "next_token": "b"}`},
		{"/runs/r", `{"status": "FAILED"}`},
		{"/runs/r/logs?next_token=b&" + filters, `{"events": [], "next_token": "c"}`},
		{"/runs/r/logs?next_token=c&" + filters, `{"events": [` + event(3, "last") + `]}`},
	})
	var out bytes.Buffer
	require.NoError(t, o.print(t.Context(), api, "r", output.New(&out, false)))
	assert.Equal(t, "2026-01-02T03:04:06Z error price[3]: first\n2026-01-02T03:04:06Z error price[3]: last\n", out.String())

	// The log of a run in progress is printed as far as it exists.
	o = reading{}
	api = answering(t, [][2]string{
		{"/runs/r/logs?next_token=", `{"events": [], "next_token": "a"}`},
		{"/runs/r", `{"status": "RUNNING"}`},
	})
	require.NoError(t, o.print(t.Context(), api, "r", output.New(&out, false)))

	for _, wrong := range []reading{{task: "price[x]"}, {level: "loud"}, {since: "soon"}} {
		assert.Equal(t, command.WrongUsage, command.Code(wrong.check()), "%+v", wrong)
	}
}

func TestRunsByName(t *testing.T) {
	t.Parallel()
	const some = `{"items": [{"run_id": "1", "run_slug": "a-b-c-17", "triggered_by": "ann@example.com"},
		{"run_id": "2", "run_slug": "a-b-c-18", "triggered_by": "api-key:k"}, {"run_id": "3", "run_slug": "d-e-f-18", "triggered_by": "api-key:k"}]}`
	for _, c := range []struct {
		name  string
		turns [][2]string
		want  string
		code  int
	}{
		{"calm-amber-otter-17", nil, "calm-amber-otter-17", command.Done},
		{"01J5ZK3T9QH8C6W2V7N4B1M0XR", nil, "01J5ZK3T9QH8C6W2V7N4B1M0XR", command.Done},
		{"17", [][2]string{{"/runs?limit=500", some}}, "1", command.Done},
		{"18", [][2]string{{"/runs?limit=500", some}}, "", command.Failure},
		{"19", [][2]string{{"/runs?limit=500", some}}, "", command.NotFound},
		{"last", [][2]string{{"/me", `{"user_email": "ann@example.com", "role": "owner"}`}, {"/runs?limit=1&triggered_by=ann@example.com", some}}, "1", command.Done},
		{"last", [][2]string{{"/me", `{"user_email": "ann@example.com", "role": "owner"}`}, {"/runs?limit=1&triggered_by=ann@example.com", `{"items": []}`}}, "", command.NotFound},
		{"last", [][2]string{{"/me", `{"user_email": "ann@example.com", "role": ""}`}, {"/runs?limit=500", some}}, "2", command.Done},
		{"last", [][2]string{{"/me", `{"user_email": "ann@example.com", "role": ""}`}, {"/runs?limit=500", `{"items": []}`}}, "", command.NotFound},
		{"", nil, "", command.WrongUsage},
		{"a/b", nil, "", command.WrongUsage},
		{"a b", nil, "", command.WrongUsage},
	} {
		id, err := find(t.Context(), answering(t, c.turns), c.name)
		assert.Equal(t, c.want, id, c.name)
		assert.Equal(t, c.code, command.Code(err), "%s: %v", c.name, err)
	}
}
