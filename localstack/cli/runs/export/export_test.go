package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// service is a server with runs, which lists them as the API does.
type service struct {
	mu     sync.Mutex
	runs   []listed // the newest first
	large  map[string]string
	fails  string   // path of requests that fail
	lists  []string // queries of lists
	limits int      // most records that a list goes through; 0: all
}

// at is an instant of a day in March 2026.
func at(day, millis int) time.Time {
	return time.Date(2026, 3, day, 12, 0, 0, millis*1e6, time.UTC)
}

// add adds finished runs, which are newer than those before.
func (s *service) add(created time.Time, n int, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range n {
		s.runs = slices.Insert(s.runs, 0, listed{fmt.Sprintf("R%05d", len(s.runs)), status, created})
	}
}

func (s *service) finish(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.runs {
		if !s.runs[i].ended() {
			s.runs[i].Status = status
		}
	}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != "" && strings.HasPrefix(r.URL.Path, s.fails) {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	parts := strings.Split(r.URL.Path, "/")
	switch {
	case r.URL.Path == "/runs":
		s.lists = append(s.lists, r.URL.RawQuery)
		s.list(w, r)
	case len(parts) == 3:
		i := slices.IndexFunc(s.runs, func(l listed) bool { return l.ID == parts[2] })
		tasks := ""
		if _, large := s.large[parts[2]]; large {
			tasks = `{"task_name":"each","map_index":3,"output_uri":"objstore://x"},{"task_name":"gone","output_uri":"objstore://y"},{"task_name":"small","output":1}`
		}
		fmt.Fprintf(w, "{\n \"run_id\": %q,\n \"status\": %q, \"task_runs\": [%s]}", parts[2], s.runs[i].Status, tasks)
	case parts[3] == "logs" && r.URL.Query().Get("next_token") == "":
		fmt.Fprintf(w, `{"events":[{"message":"one","run_id":%q},{"message":"two"}],"next_token":"t","source":"archive"}`, parts[2])
	case parts[3] == "logs":
		fmt.Fprint(w, `{"events":[{"message":"three"}],"source":"archive"}`)
	case strings.HasSuffix(r.URL.Path, "/each/output") && r.URL.RawQuery == "map_index=3":
		fmt.Fprint(w, s.large[parts[2]])
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (s *service) list(w http.ResponseWriter, r *http.Request) {
	var page struct {
		Items []listed `json:"items"`
		Until string   `json:"next_until,omitempty"`
	}
	bound := func(name string, otherwise time.Time) time.Time {
		t, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get(name))
		if err != nil {
			return otherwise
		}
		return t
	}
	since, until := bound("since", at(1, 0)), bound("until", at(31, 0))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	read := 0
	for _, run := range s.runs {
		if run.Created.Before(since) || run.Created.After(until) {
			continue
		}
		if s.limits > 0 && read >= s.limits {
			page.Until = stamp(run.Created)
			break
		}
		read++
		if page.Items = append(page.Items, run); len(page.Items) == limit {
			break
		}
	}
	_ = json.NewEncoder(w).Encode(page) // the reader notices
}

// world is a service, and a directory that it is exported to.
type world struct {
	*service
	t *testing.T
	e Export
}

func newWorld(t *testing.T) world {
	t.Helper()
	s := &service{large: map[string]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return world{s, t, Export{
		API: &client.Client{BaseURL: server.URL}, Dir: t.TempDir(), Server: server.URL, Org: "org_1",
		Selection: Selection{Logs: true, Outputs: true}, Now: func() time.Time { return at(20, 0) },
	}}
}

// export exports and verifies, and returns what was added.
func (w world) export() Result {
	w.t.Helper()
	result, err := w.e.Run(w.t.Context())
	require.NoError(w.t, err)
	w.verify()
	return result
}

func (w world) verify() Verified {
	w.t.Helper()
	v, err := Verify(w.e.Dir)
	require.NoError(w.t, err)
	assert.Empty(w.t, v.Faults)
	return v
}

// ids returns the exported runs by file.
func (w world) ids() map[string][]string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.e.Dir, "*", "*-runs.ndjson.gz"))
	require.NoError(w.t, err)
	out := map[string][]string{}
	for _, path := range found {
		name, err := filepath.Rel(w.e.Dir, path)
		require.NoError(w.t, err)
		require.NoError(w.t, lines(w.e.Dir, name, func(line []byte) error {
			var run listed
			out[name] = append(out[name], "")
			err := json.Unmarshal(line, &run)
			out[name][len(out[name])-1] = run.ID
			return err
		}))
	}
	return out
}

func TestExportAddsWhatIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(at(2, 0), 2, "SUCCEEDED")
	w.add(at(3, 0), 1, "FAILED")
	w.add(at(3, 1), 1, "RUNNING")
	w.add(at(20, 0), 1, "CANCELLED")
	w.large["R00001"] = `"` + strings.Repeat("x", 1<<20) + `"`
	assert.Equal(t, Result{Runs: 4, Events: 12, Outputs: 1, Unfinished: 1, Lost: 1}, w.export())
	assert.Equal(t, map[string][]string{
		"2026-03-02/0001-runs.ndjson.gz": {"R00001", "R00000"}, "2026-03-03/0001-runs.ndjson.gz": {"R00002"}, "2026-03-20/0001-runs.ndjson.gz": {"R00004"},
	}, w.ids())
	assert.Equal(t, Result{Present: 4, Unfinished: 1}, w.export())
	v := w.verify()
	assert.Equal(t, []int{3, 1, 4, 12, 1}, []int{v.Days, v.Complete, v.Runs, v.Events, v.Outputs}, "a day with a live run, and today, are not complete")

	w.finish("TIMED_OUT")
	w.add(at(20, 5), 1, "SUCCEEDED")
	assert.Equal(t, Result{Runs: 2, Events: 6, Present: 4}, w.export())
	assert.Equal(t, []string{"R00003"}, w.ids()["2026-03-03/0002-runs.ndjson.gz"])
	assert.Equal(t, 2, w.verify().Complete)
	for name := range w.ids() {
		require.NoError(t, lines(w.e.Dir, strings.Replace(name, "runs", "logs", 1), func(line []byte) error {
			assert.Contains(t, string(line), `"run_id":"R0`, "each line names its run")
			return nil
		}))
	}

	// Complete days are not listed again.
	w.lists = nil
	assert.Equal(t, Result{Present: 6}, w.export())
	assert.Equal(t, "limit=500&until=2026-03-01T23%3A59%3A59.999Z", w.lists[len(w.lists)-1])
}

func TestExportReadsEveryPageOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fill   func(w world)
		runs   int
		limits int
	}{
		"one instant across pages": {func(w world) {
			w.add(at(2, 0), 480, "SUCCEEDED")
			w.add(at(2, 1), 490, "SUCCEEDED")
			w.add(at(2, 2), 40, "SUCCEEDED")
		}, 1010, 0},
		"more in an instant than a page": {func(w world) {
			w.add(at(2, 0), 3, "SUCCEEDED")
			w.add(at(2, 1), 1200, "SUCCEEDED")
			w.add(at(2, 2), 7, "SUCCEEDED")
		}, 1210, 0},
		"exactly a page": {func(w world) { w.add(at(2, 0), 500, "SUCCEEDED") }, 500, 0},
		"a server that goes through a few records": {func(w world) {
			for i := range 9 {
				w.add(at(2, i), 10, "SUCCEEDED")
			}
		}, 90, 30},
		"nothing": {func(world) {}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.e.Selection = Selection{}
			c.fill(w)
			w.limits = c.limits
			assert.Equal(t, c.runs, w.export().Runs)
			assert.Equal(t, c.runs, w.verify().Runs)
			assert.Equal(t, Result{Present: c.runs}, w.export())
		})
	}
}

func TestExportOfARangeAndOfStatuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.e.Statuses = []string{"FAILED"}
	for day := 2; day < 6; day++ {
		w.add(at(day, 0), 1, "FAILED")
		w.add(at(day, 1), 1, "SUCCEEDED")
		w.add(at(day, 2), 1, "FAILED")
	}
	w.e.Since, w.e.Until = at(3, 1), at(5, 1)
	assert.Equal(t, 4, w.export().Runs)
	assert.Equal(t, 1, w.verify().Complete, "only the day between both")
	w.e.Since, w.e.Until = time.Time{}, time.Time{}
	assert.Equal(t, Result{Runs: 4, Events: 12, Present: 4}, w.export())
	assert.Equal(t, 4, w.verify().Complete)
}

// TestFailedExportGoesOn fails at each kind of request.
func TestFailedExportGoesOn(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/runs/R00003", "/runs/R00003/logs", "/runs/R00003/tasks"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.add(at(2, 0), 20, "SUCCEEDED")
			w.add(at(3, 0), 1100, "SUCCEEDED")
			w.large["R00003"] = "1"
			w.fails = path
			_, err := w.e.Run(t.Context())
			require.Error(t, err)
			assert.Equal(t, 1100, w.verify().Runs, "what was committed")
			assert.NotContains(t, w.ids(), "2026-03-02/0001-runs.ndjson.gz")
			left, err := filepath.Glob(filepath.Join(w.e.Dir, "*", "*"+partial))
			require.NoError(t, err)
			assert.Empty(t, left)
			w.fails = ""
			assert.Equal(t, 20, w.export().Runs)
			assert.Equal(t, 1120, w.verify().Runs)
		})
	}
}

// TestExportAfterACrash leaves what a killed export leaves at each of its steps.
func TestExportAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(at(2, 0), 3, "SUCCEEDED")
	w.export()
	w.add(at(20, 0), 2, "SUCCEEDED")
	day := filepath.Join(w.e.Dir, "2026-03-20")
	require.NoError(t, os.Mkdir(day, 0o700))
	for _, name := range []string{"0001-runs.ndjson.gz.partial", "0001-logs.ndjson.gz", "0001-outputs.zip", "0002-runs.ndjson.gz"} {
		require.NoError(t, os.WriteFile(filepath.Join(day, name), []byte("half"), 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.e.Dir, manifestFile+".123"), []byte("{"), 0o600))
	v, err := Verify(w.e.Dir)
	require.NoError(t, err)
	assert.Len(t, v.Faults, 3, "files that look complete")
	assert.Equal(t, Result{Runs: 2, Events: 6, Present: 3}, w.export())
	assert.NoFileExists(t, filepath.Join(day, "0002-runs.ndjson.gz"))
	assert.NoFileExists(t, filepath.Join(day, "0001-outputs.zip"))
	assert.NoFileExists(t, filepath.Join(w.e.Dir, manifestFile+".123"))
}

// TestExportThatWasKilledAtItsBeginning leaves a directory without a manifest.
func TestExportThatWasKilledAtItsBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(at(2, 0), 1, "SUCCEEDED")
	for _, name := range []string{lockFile, manifestFile + ".123"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.e.Dir, name), []byte("{"), 0o600))
	}
	assert.Equal(t, 1, w.export().Runs)
}

func TestDirectoryIsOfOneExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(at(2, 0), 1, "SUCCEEDED")
	w.export()
	for name, change := range map[string]func(e *Export){
		"another workspace": func(e *Export) { e.Org = "org_2" },
		"other flags":       func(e *Export) { e.Statuses = []string{"FAILED"} },
		"a folder of files": func(e *Export) {
			e.Dir = t.TempDir()
			require.NoError(t, os.WriteFile(filepath.Join(e.Dir, "photo"), nil, 0o600))
		},
	} {
		e := w.e
		change(&e)
		_, err := e.Run(t.Context())
		_, mismatch := errors.AsType[*MismatchError](err)
		assert.True(t, mismatch, "%s: %v", name, err)
	}
	assert.Equal(t, 1, w.verify().Runs)
	assert.Equal(t, "--flow etl --status FAILED --no-logs", Selection{Flow: "etl", Statuses: []string{"FAILED"}, Outputs: true}.String())
}

func TestVerifyFindsWhatWasChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(path string) error
		want   string
	}{
		"removed": {os.Remove, "is missing"},
		"cut":     {func(path string) error { return os.Truncate(path, 20) }, "has 20 bytes, not "},
		"a bit": {func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			data[len(data)/2] ^= 1
			return os.WriteFile(path, data, 0o600)
		}, "was changed: its SHA-256 is "},
		"a copy": {func(path string) error {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(strings.Replace(path, "/0001-", "/0007-", 1), data, 0o600)
		}, "is not in the manifest"},
	} {
		for _, file := range []string{"0001-runs.ndjson.gz", "0001-logs.ndjson.gz", "0001-outputs.zip"} {
			t.Run(name+" "+file, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.add(at(2, 0), 2, "SUCCEEDED")
				w.large["R00000"] = `"large"`
				w.export()
				require.NoError(t, c.change(filepath.Join(w.e.Dir, "2026-03-02", file)))
				v, err := Verify(w.e.Dir)
				require.NoError(t, err)
				require.Len(t, v.Faults, 1)
				assert.Contains(t, v.Faults[0], c.want)
			})
		}
	}
}
