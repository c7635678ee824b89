package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// counter is a page that counts the calls of tasks, by name, and blocks some of
// them until it is released.
type counter struct {
	*httptest.Server
	mu       sync.Mutex
	calls    map[string]int
	held     map[string]bool
	released chan struct{}
}

func newCounter(t *testing.T) *counter {
	c := &counter{calls: map[string]int{}, held: map[string]bool{}, released: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		c.mu.Lock()
		c.calls[name]++
		wait := c.held[name]
		c.mu.Unlock()
		if wait {
			select {
			case <-c.released:
			case <-r.Context().Done():
				return
			}
		}
		_, _ = w.Write([]byte(name))
	}))
	t.Cleanup(c.Server.Close)
	return c
}

func (c *counter) hold(names ...string) {
	for _, name := range names {
		c.held[name] = true
	}
}

func (c *counter) release() { close(c.released) }

func (c *counter) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.calls)
}

func (c *counter) waitFor(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool { return c.counts()[name] > 0 }, 30*time.Second, 5*time.Millisecond)
}

// call returns an http task that calls the page under its own name.
func (c *counter) call(name string, after ...string) task {
	return task{Name: name, Type: "http", DependsOn: after, Config: map[string]any{"url": c.URL + "/" + name}}
}

// TestKilledServerResumes kills the server in the middle of a run of 50 tasks,
// half of them Python. After a restart the run finishes, and no finished task
// runs again.
func TestKilledServerResumes(t *testing.T) {
	t.Parallel()
	const tasks, held = 50, 15
	dir := dataDir(t)
	page := newCounter(t)
	s := start(t, dir, "--allow-loopback")
	source := fmt.Sprintf(`
import urllib.request

def step(ctx):
    with urllib.request.urlopen(%q + ctx.task_name) as answer:
        return answer.read().decode()
`, page.URL+"/")
	var spec []task
	var names []string
	for i := range tasks {
		name := fmt.Sprint("t", i)
		names = append(names, name)
		if i >= tasks-held {
			page.hold(name)
		}
		if i%2 == 0 {
			spec = append(spec, page.call(name))
			continue
		}
		spec = append(spec, task{Name: name, Type: "python", Entrypoint: "flow:step"})
	}
	spec = append(spec, transform("end", "1", names...))
	deploy(t, s.Client(), "killed", source, spec)
	run, err := s.Client().Start(t.Context(), client.RunRequest{Deployment: "killed"})
	require.NoError(t, err)

	finished := map[string]bool{}
	require.Eventually(t, func() bool {
		now, err := s.Client().Run(t.Context(), run.RunID)
		require.NoError(t, err)
		for _, r := range now.TaskRuns {
			if r.Status == "SUCCEEDED" {
				finished[r.TaskName] = true
			}
		}
		return len(finished) >= tasks-held
	}, time.Minute, 10*time.Millisecond)
	page.waitFor(t, names[tasks-1])
	s.Kill()
	page.release()

	again := start(t, dir, "--allow-loopback")
	begin := time.Now()
	done := finish(t, again.Client(), run.RunID)
	t.Logf("healthy after %s, the run finished %s later; %d tasks had finished before the kill",
		again.Startup.Round(time.Millisecond), time.Since(begin).Round(time.Millisecond), len(finished))
	calls := page.counts()
	for _, name := range names {
		assert.GreaterOrEqual(t, calls[name], 1, name)
		if finished[name] {
			assert.Equal(t, 1, calls[name], "%s had finished and ran again", name)
		}
		records := done.Task(name)
		assert.Equal(t, "SUCCEEDED", records[len(records)-1].Status, name)
	}
	events, err := again.Client().Log(t.Context(), run.RunID)
	require.NoError(t, err)
	assert.Equal(t, "run_finished", events[len(events)-1].EventType)
}
