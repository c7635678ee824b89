package limits

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// running returns the processes whose command line contains a text; none if
// that is unknown.
func running(t *testing.T, text string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && strings.Contains(string(data), text) {
			found = append(found, file)
		}
	}
	return found
}

// workspace signs in a user, creates a workspace, and returns a client of it.
func (s *service) workspace(email string) *service {
	s.t.Helper()
	web := &client.Client{BaseURL: s.BaseURL}
	var signed struct {
		IDToken string `json:"id_token"`
	}
	ctx := s.t.Context()
	require.NoError(s.t, s.Local().Do(ctx, http.MethodPost, "/_local/sign-in", object{"email": email}, &signed))
	web.Token = signed.IDToken
	require.NoError(s.t, web.Do(ctx, http.MethodPost, "/orgs", object{"name": email}, nil))
	return &service{s.Server, web, s.t}
}

// TestFloodDoesNotDelayOthers floods the service from one workspace: runs of
// another still start and end without waiting for the flood.
func TestFloodDoesNotDelayOthers(t *testing.T) {
	s := start(t)
	other := s.workspace("other@example.com")
	n := size(2000, 10_000)
	each := transform("each", "item")
	each["map_over"] = fmt.Sprintf("lists.range(%d)", n)
	s.register("flood", each)
	s.upload("slow", "import time\n\ndef nap(ctx, index):\n    time.sleep(0.05)\n", object{
		"name": "nap", "type": "python", "entrypoint": "flow:nap", "map_over": fmt.Sprintf("lists.range(%d)", size(500, 3000)),
	})
	other.register("one", transform("one", "1"))
	other.upload("code", "def one():\n    return 1\n", python("one"))
	one := func(in client.RunRequest) time.Duration {
		began := time.Now()
		in.Execute = true
		run := other.begin(in)
		require.Equal(t, "SUCCEEDED", run.Status)
		return time.Since(began)
	}
	instant, code := client.RunRequest{FlowName: "one"}, client.RunRequest{Deployment: "code"}
	alone, aloneCode := one(instant), one(code)
	flood, slow := s.begin(client.RunRequest{FlowName: "flood"}).RunID, s.begin(client.RunRequest{Deployment: "slow"}).RunID
	var worst, worstCode time.Duration
	asked := 0
	for {
		floods, slows := s.summary(flood), s.summary(slow)
		if floods.Ended() && slows.Ended() {
			break
		}
		if !floods.Ended() {
			worst = max(worst, one(instant))
		}
		if !slows.Ended() && asked < 20 {
			worstCode = max(worstCode, one(code))
			asked++
		}
	}
	t.Logf("alone %s, python %s; beside %d tasks and %d naps at worst %s, python %s (%d asked)", alone.Round(time.Millisecond), aloneCode.Round(time.Millisecond),
		n, size(500, 3000), worst.Round(time.Millisecond), worstCode.Round(time.Millisecond), asked)
	assert.Positive(t, asked)
	slack := time.Duration(size(4, 1)) // other tests run beside a part
	assert.Less(t, worst, slack*time.Second)
	assert.Less(t, worstCode, slack*3*time.Second)
	assert.Less(t, s.peak(), int64(mostMemory))
}

// TestOthersStartWhileOneHoldsWorkers lets one workspace take all the workers
// and Python interpreters it can get, with tasks that outlast the test: runs of
// another start at once.
func TestOthersStartWhileOneHoldsWorkers(t *testing.T) {
	s := start(t, "--allow-loopback")
	other := s.workspace("other@example.com")
	hung := make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-hung
		}
	}))
	defer web.Close()
	defer close(hung)
	call := func(path string) object {
		return object{"name": "call", "type": "http", "config": object{"url": web.URL + path}}
	}
	const workers, slots = 72, 18
	slow := call("/slow")
	slow["map_over"] = fmt.Sprintf("lists.range(%d)", 2*workers)
	s.register("slow", slow)
	s.upload("nap", "import time\n\ndef nap(ctx, index):\n    time.sleep(600)\n", object{
		"name": "nap", "type": "python", "entrypoint": "flow:nap", "map_over": fmt.Sprintf("lists.range(%d)", 2*slots),
	})
	other.register("transform", transform("one", "1"))
	other.register("http", call("/"))
	other.upload("python", "def one():\n    return 1\n", python("one"))
	for taken, in := range map[int]client.RunRequest{
		workers - workers/9: {FlowName: "slow", ExecutionMode: "small"},
		slots - slots/9:     {Deployment: "nap", ExecutionMode: "nano"},
	} {
		run := s.begin(in).RunID
		var running, waiting int
		require.Eventually(t, func() bool {
			d, err := s.Run(t.Context(), run)
			require.NoError(t, err)
			running, waiting = 0, 0
			for _, task := range d.TaskRuns {
				switch {
				case task.Status == "RUNNING":
					running++
				case task.Status == "QUEUED" && strings.Contains(task.Reason, "this workspace's, the rest is for others"):
					waiting++
				}
			}
			return running == taken && waiting == len(d.TaskRuns)-taken
		}, time.Minute, 50*time.Millisecond, "it has %d of %d places, and %d tasks tell why they wait", &running, taken, &waiting)
	}
	times := map[string][]time.Duration{}
	for range size(5, 50) {
		for _, kind := range []string{"transform", "http", "python"} {
			in := client.RunRequest{FlowName: kind, ExecutionMode: "small", Execute: true}
			if kind == "python" {
				in = client.RunRequest{Deployment: kind, ExecutionMode: "small", Execute: true}
			}
			began := time.Now()
			require.Equal(t, "SUCCEEDED", other.begin(in).Status)
			times[kind] = append(times[kind], time.Since(began))
		}
	}
	for kind, took := range times {
		slices.Sort(took)
		t.Logf("%s: median %s, at worst %s", kind, took[len(took)/2], took[len(took)-1])
		assert.Less(t, took[len(took)/2], time.Duration(size(4, 1))*time.Second) // other tests run beside a part
	}
}
