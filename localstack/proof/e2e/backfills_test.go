package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// backfillView is a backfill as a client reads it.
type backfillView struct {
	ID        string `json:"backfill_id"`
	Status    string `json:"status"`
	Completed int    `json:"completed"`
	Intervals []struct {
		LogicalAt string  `json:"logical_at"`
		RunID     *string `json:"run_id"`
		Status    string  `json:"status"`
	} `json:"intervals"`
}

var backfillID = regexp.MustCompile(`bf_\w+`)

// TestBackfillSurvivesKills kills the server twice in the middle of a backfill:
// never more of its runs are unfinished than may be, and each interval has
// exactly one.
func TestBackfillSurvivesKills(t *testing.T) {
	t.Parallel()
	const intervals, concurrency = 300, 5
	dir := dataDir(t)
	s := start(t, dir)
	spec := map[string]any{"tasks": []map[string]any{{"name": "a", "type": "transform", "config": map[string]any{"expression": "params.ds"}}}}
	require.NoError(t, s.Client().Do(t.Context(), http.MethodPost, "/flows", map[string]any{"flow_name": "f", "flow_version": "1", "flow_spec": spec}, nil))
	from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var b backfillView
	require.NoError(t, s.Client().Do(t.Context(), http.MethodPost, "/flows/f/backfill", map[string]any{
		"from": from, "to": from.Add((intervals - 1) * time.Hour), "interval_seconds": 3600, "max_concurrency": concurrency,
	}, &b))

	type listed struct {
		Items []struct {
			RunID  string `json:"run_id"`
			Status string `json:"status"`
		} `json:"items"`
	}
	runs := func() (all listed) {
		require.NoError(t, s.Client().Do(t.Context(), http.MethodGet, "/runs?trigger_source=backfill&triggered_by=backfill:"+b.ID, nil, &all))
		return all
	}
	kills := 0
	require.Eventually(t, func() bool {
		unfinished := 0
		for _, run := range runs().Items {
			if run.Status == "QUEUED" || run.Status == "RUNNING" {
				unfinished++
			}
		}
		assert.LessOrEqual(t, unfinished, concurrency)
		require.NoError(t, s.Client().Do(t.Context(), http.MethodGet, "/backfills/"+b.ID, nil, &b))
		if kills < 2 && b.Completed > (kills+1)*intervals/4 {
			kills++
			s.Kill()
			s = start(t, dir)
		}
		return b.Status != "RUNNING"
	}, 3*time.Minute, 20*time.Millisecond)
	assert.Equal(t, "COMPLETED", b.Status)
	assert.Equal(t, intervals, b.Completed)
	assert.Equal(t, 2, kills)
	of := map[string]int{}
	for _, one := range b.Intervals {
		require.NotNil(t, one.RunID)
		of[*one.RunID]++
	}
	all := runs().Items
	assert.Len(t, all, intervals)
	for _, run := range all {
		assert.Equal(t, 1, of[run.RunID], run.RunID)
	}
}

// TestBackfillFromTheCommandLine does what a user of backfills does.
func TestBackfillFromTheCommandLine(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	project := filepath.Dir(data)
	u := &user{t: t, dir: project}
	home := filepath.Join(project, ".millrace")
	s := start(t, home)
	flow := `{"flow_name":"f","flow_version":"1","flow_spec":{"parameters":{"type":"object","properties":{"n":{"type":"string"},"ds":{"type":"string"}}},
		"tasks":[{"name":"a","type":"transform","config":{"expression":"params.ds == '2026-03-02' ? string(1/0) : params.n"}}]}}`
	assert.Zero(t, u.run(flow, "api", "POST", "/flows", "--input", "-").code)
	window := []string{"backfill", "create", "f", "--from", "2026-03-01", "--to", "2026-03-03", "--cron", "30 6 * * *", "-p", "n=7", "--max-concurrency", "2"}
	dry := u.must(append(window, "--dry-run")...)
	assert.Contains(t, dry, "3 runs would be started, 2 at once")
	assert.Contains(t, dry, "PENDING")
	assert.NotContains(t, u.must("backfill", "list"), "bf_")

	watched := u.run("", append(window, "-w")...)
	assert.Equal(t, 1, watched.code, "an interval has failed: %s", watched.err)
	assert.Regexp(t, `(?m)^bf_\w+  f  COMPLETED  \[#{20}\] 3 of 3, 1 failed$`, watched.out)
	assert.Regexp(t, `(?m)^1 failed: .*division by zero`, watched.out)
	list := u.must("backfill", "list")
	assert.Regexp(t, `(?m)^bf_\w+ +f +COMPLETED +3 +2 +1 `, list)
	id := backfillID.FindString(list)
	got := u.must("backfill", "get", id)
	assert.Regexp(t, `(?m)^1 +2026-03-02.* FAILED +\w+`, got)
	assert.Regexp(t, `(?m)^1 +2026-03-02.* FAILED .*division by zero`, got)
	assert.Regexp(t, `(?m)^1 failed: .*division by zero`, got)
	assert.NotContains(t, got, "SUCCEEDED")
	assert.Contains(t, u.must("backfill", "get", id, "--all"), "SUCCEEDED")
	refused := u.run("", "backfill", "cancel", id)
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.err, "COMPLETED")
	assert.Equal(t, 2, u.run("", "backfill", "create", "f", "--from", "2026-03-01").code)
	assert.Equal(t, 2, u.run("", append(window, "--interval", "1h")...).code)
	assert.Equal(t, 6, u.run("", "backfill", "get", "bf_none").code)

	credentials := s.Credentials
	u.must("switch-backfills", "--data", home, "--org", credentials.OrgID, "off")
	off := u.run("", "backfill", "list")
	assert.NotZero(t, off.code)
	assert.Contains(t, off.err, "switched off")
	u.must("switch-backfills", "--data", home, "--org", credentials.OrgID, "on")
	u.must("backfill", "list")
	assert.NotZero(t, u.run("", "switch-backfills", "--data", home, "--org", "org_none", "off").code)
	assert.Equal(t, 2, u.run("", "switch-backfills", "--data", home, "--org", credentials.OrgID, "maybe").code)
}
