package e2e

import (
	"archive/zip"
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"millrace/localstack/client"
)

// lines returns the lines of the files of an export whose names end so.
func lines(t *testing.T, dir, suffix string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"+suffix))
	require.NoError(t, err)
	var out []string
	for _, path := range found {
		f, err := os.Open(path)
		require.NoError(t, err)
		unpacked, err := gzip.NewReader(f)
		require.NoError(t, err)
		for s := bufio.NewScanner(unpacked); s.Scan(); {
			out = append(out, s.Text())
		}
		require.NoError(t, f.Close())
	}
	return out
}

// TestExportOfRuns exports what a server has, adds what is new, and verifies it.
func TestExportOfRuns(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	u := &user{t: t, dir: t.TempDir(), env: []string{"MILLRACE_URL=" + s.Credentials.BaseURL, "MILLRACE_API_KEY=" + s.Credentials.APIKey}}
	api := s.Client()
	register(t, api, "fine", []task{transform("one", "1"), transform("two", "'x'.size() + 1", "one")})
	register(t, api, "broken", []task{transform("one", "[1][7]")})
	// 1.2 MB, more than a record shows.
	wide := `lists.range(600).map(i, "` + strings.Repeat("x", 2000) + `")`
	register(t, api, "large", []task{transform("wide", wide)})
	register(t, api, "long", []task{{Name: "wait", Type: "wait", Config: map[string]any{"seconds": 3600}}})
	for _, flow := range []string{"fine@1", "broken@1", "large@1", "fine@1"} {
		u.run("", "run", flow, "-w")
	}
	u.must("run", "long@1")

	out := u.must("runs", "export", "copy")
	assert.Regexp(t, `^\d{4}-\d\d-\d\d: 4 runs\n4 runs, \d+ log events and 1 large outputs exported to copy; 0 runs were there already\n1 runs are not finished: a later export adds them\n$`, out)
	copied := filepath.Join(u.dir, "copy")
	records := lines(t, copied, "-runs.ndjson.gz")
	require.Len(t, records, 4)
	for _, record := range records {
		var run struct {
			ID string `json:"run_id"`
		}
		require.NoError(t, json.Unmarshal([]byte(record), &run))
		assert.JSONEq(t, u.must("api", "GET", "/runs/"+run.ID), record, "as the API shows it")
	}
	events := lines(t, copied, "-logs.ndjson.gz")
	assert.Greater(t, len(events), 12)
	for _, event := range events {
		assert.Contains(t, event, `"run_id":"`)
	}
	zips, err := filepath.Glob(filepath.Join(copied, "*", "*-outputs.zip"))
	require.NoError(t, err)
	require.Len(t, zips, 1)
	z, err := zip.OpenReader(zips[0])
	require.NoError(t, err)
	defer z.Close()
	require.Len(t, z.File, 1)
	f, err := z.File[0].Open()
	require.NoError(t, err)
	data, err := io.ReadAll(f)
	require.NoError(t, err)
	var list []string
	require.NoError(t, json.Unmarshal(data, &list))
	assert.Len(t, list, 600)

	u.must("cancel", "last")
	assert.Contains(t, u.must("runs", "export", "copy", "--json"), `"runs":1,`)
	assert.Contains(t, u.must("runs", "export", "copy", "--json"), `"present":5,"unfinished":0`)
	u.must("runs", "export", "failed", "--status", "failed", "--no-logs", "--since", "1h")
	assert.Len(t, lines(t, filepath.Join(u.dir, "failed"), "-runs.ndjson.gz"), 1)

	s.Kill()
	assert.Contains(t, u.must("runs", "export", "copy", "--verify"), "5 runs, ", "without the server")
	require.NoError(t, os.Truncate(zips[0], 100))
	changed := u.run("", "runs", "export", "copy", "--verify")
	assert.Equal(t, 1, changed.code)
	assert.Contains(t, changed.err, "0001-outputs.zip: has 100 bytes, not ")
	for _, c := range []struct {
		code int
		args []string
	}{
		{2, []string{"runs", "export"}},
		{2, []string{"runs", "export", "new", "--status", "RUNNING"}},
		{2, []string{"runs", "export", "new", "--since", "soon"}},
		{2, []string{"runs", "export", "new", "--since", "1d", "--until", "2d"}},
		{6, []string{"runs", "export", "new", "--verify"}},
		{1, []string{"runs", "export", "new"}}, // the server is gone
	} {
		assert.Equal(t, c.code, u.run("", c.args...).code, c.args)
	}
	assert.NoDirExists(t, filepath.Join(u.dir, "new"))
}

// TestInterruptedExportGoesOn kills exports at any moment, until one comes to its end.
func TestInterruptedExportGoesOn(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	u := &user{t: t, dir: t.TempDir(), env: []string{"MILLRACE_URL=" + s.Credentials.BaseURL, "MILLRACE_API_KEY=" + s.Credentials.APIKey}}
	register(t, s.Client(), "fine", []task{transform("one", "1")})
	const runs = 1300 // more than a part
	var starts errgroup.Group
	starts.SetLimit(16)
	for range runs {
		starts.Go(func() error {
			_, err := s.Client().Start(t.Context(), client.RunRequest{FlowName: "fine", FlowVersion: "1", Execute: true})
			return err
		})
	}
	require.NoError(t, starts.Wait())
	for kills := 0; ; kills++ {
		cmd := u.command("runs", "export", "copy")
		require.NoError(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			require.NoError(t, err)
			assert.Contains(t, u.must("runs", "export", "copy", "--verify"), "1300 runs, ")
			assert.Positive(t, kills)
			return
		case <-time.After(time.Duration(50*(kills+1)) * time.Millisecond):
			_ = cmd.Process.Kill() // it may have ended
			<-ended
		}
	}
}
