package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/runtimeapi"
)

// Budgets of a start and of the deployed size.
const (
	maxFirstPoll = 20 * time.Millisecond
	maxBinary    = 20 << 20
)

// limits are the sizes that the program may have on the machines of tests, in
// bytes, half a megabyte above what it has. Who makes it smaller lowers them.
var limits = map[string]int64{"amd64": 32_000 << 10, "arm64": 29_700 << 10}

func TestProgramDoesNotGrow(t *testing.T) {
	t.Parallel()
	require.Contains(t, limits, runtime.GOARCH)
	info, err := os.Stat(binary)
	require.NoError(t, err)
	assert.LessOrEqual(t, info.Size(), limits[runtime.GOARCH], "go tool nm -size -sort size of an unstripped build tells what is in it")
}

// TestFunctionsLinkNoServer keeps out of the deployed program what only servers,
// clients, tools and machines need: it adds to its size, and its initialization
// to each start.
func TestFunctionsLinkNoServer(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "lambda.norpc", "millrace/functions/bootstrap").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "millrace/functions/catalog\n")
	const sdk = "github.com/aws/aws-sdk-go-v2/"
	for _, imported := range strings.Fields(string(out)) {
		for _, needless := range []string{
			"millrace/localstack/", "millrace/infra", "testing", "net/http/pprof", "github.com/stretchr/", "github.com/cockroachdb/",
			"github.com/versity/", "github.com/spf13/", "github.com/yuin/goldmark", "github.com/wneessen/", "github.com/aws/aws-cdk-go/",
			// Package awsenv instead.
			sdk + "config", sdk + "feature/", sdk + "service/sso", sdk + "service/sts", sdk + "service/signin",
		} {
			assert.False(t, imported == needless || strings.HasPrefix(imported, strings.TrimSuffix(needless, "/")+"/"), "the functions import %s", imported)
		}
	}
}

// process starts a function that can reach only its Runtime API.
func process(tb testing.TB, api *runtimeapi.API, handler string) (end func()) {
	tb.Helper()
	cmd := exec.Command(binary)
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=" + api.Address(), "_HANDLER=" + handler}
	spec, found := catalog.Find(catalog.All(), handler)
	require.True(tb, found, handler)
	for _, variables := range []map[string]string{complete(), spec.Collector()} {
		for name, value := range variables {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	require.NoError(tb, cmd.Start())
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	}
}

// firstPoll returns the time from the start of the process to its first request
// for an event.
func firstPoll(tb testing.TB, handler string) time.Duration {
	tb.Helper()
	api, err := runtimeapi.Start()
	require.NoError(tb, err)
	defer api.Close()
	begin := time.Now()
	defer process(tb, api, handler)()
	select {
	case <-api.Polled():
		return time.Since(begin)
	case <-time.After(20 * time.Second):
		require.Fail(tb, "no poll", handler)
		return 0
	}
}

// median returns the median time of n starts.
func median(tb testing.TB, handler string, n int) time.Duration {
	tb.Helper()
	times := make([]time.Duration, n)
	for i := range times {
		times[i] = firstPoll(tb, handler)
	}
	slices.Sort(times)
	return times[n/2]
}

func TestEveryFunctionPolls(t *testing.T) {
	for _, spec := range catalog.All() {
		t.Logf("%-16s %v", spec.Name, firstPoll(t, spec.Name).Round(100*time.Microsecond))
	}
}

// BenchmarkStart reports the median of 20 starts of functions with few and with
// many operations, and of one without. The budget is for an idle machine.
func BenchmarkStart(b *testing.B) {
	for _, handler := range []string{"health", "runs", "taskworker", "flows", "console"} {
		b.Run(handler, func(b *testing.B) {
			var m time.Duration
			for b.Loop() {
				m = median(b, handler, 20)
			}
			b.ReportMetric(float64(m.Microseconds())/1000, "ms-to-first-poll")
			b.ReportMetric(float64(maxFirstPoll.Milliseconds()), "ms-budget")
		})
	}
}

// BenchmarkDeployedSize reports the deployed size with its budget.
func BenchmarkDeployedSize(b *testing.B) {
	out := filepath.Join(b.TempDir(), "bootstrap")
	for b.Loop() {
		log, err := build(out, []string{"-trimpath"}, "GOOS=linux", "GOARCH=arm64")
		require.NoError(b, err, "%s", log)
	}
	info, err := os.Stat(out)
	require.NoError(b, err)
	b.ReportMetric(float64(info.Size())/(1<<20), "MB-arm64-stripped")
	b.ReportMetric(maxBinary>>20, "MB-budget")
}
