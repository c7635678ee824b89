package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// leaky is a flow that does with a secret whatever a careless author might.
const leaky = `
import base64, json, sys, urllib.parse

def forms(value):
    return [value, base64.b64encode(value.encode()).decode(), urllib.parse.quote(value), urllib.parse.quote_plus(value), json.dumps(value)]

def leak(ctx):
    value = ctx.secret("CANARY")
    for form in forms(value):
        print("printed", form)
        print("to stderr", form, file=sys.stderr)
        ctx.log("logged " + form, field=form)
    return {"forms": forms(value), value: "as a key", "length": len(value)}

def large(ctx):
    return [form + " " * 100 for form in forms(ctx.secret("CANARY"))] * 400

def fail(ctx):
    raise ValueError("refused: " + " ".join(forms(ctx.secret("CANARY"))))

def pass_on(leak, large):
    print("what came", leak, large[:5])
    return [leak, large]
`

// TestASecretIsFoundNowhere: a canary that a flow prints, logs, returns, raises and
// sends is in no log, output, error, audit entry, trace or file of the server, in
// none of four encodings; and tasks that read it got it.
func TestASecretIsFoundNowhere(t *testing.T) {
	t.Parallel()
	const canary = `k@narie/4711 "vögel"\n#?&=+`
	var sent string
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent = r.Header.Get("Authorization")
		_, _ = io.WriteString(w, "you sent "+sent+" and "+string(body)) // an echo
	}))
	defer elsewhere.Close()

	dir := dataDir(t)
	s := start(t, dir, "--allow-loopback", "--log-level", "debug")
	api := s.Client()
	secret := func(value string, environment any) map[string]any {
		return map[string]any{"name": "CANARY", "value": value, "environment": environment, "description": "a canary"}
	}
	require.NoError(t, api.Do(t.Context(), "POST", "/secrets", secret("of the workspace, and not to be taken", nil), nil))
	require.NoError(t, api.Do(t.Context(), "POST", "/secrets", secret("old", "default"), nil))
	require.NoError(t, api.Do(t.Context(), "PUT", "/secrets/CANARY?environment=default", map[string]any{"value": canary}, nil))
	require.Error(t, api.Do(t.Context(), "POST", "/secrets", map[string]any{"name": "X", "value": canary, "more": canary}, nil))
	var read struct{ Value string }
	require.NoError(t, api.Do(t.Context(), "GET", "/secrets/CANARY/value?environment=default", nil, &read))
	require.Equal(t, canary, read.Value)

	names := map[string]any{"secrets": map[string]any{"CANARY": "${{ secrets.CANARY }}"}}
	deploy(t, api, "leaky", leaky, []task{
		{Name: "leak", Type: "python", Entrypoint: "flow:leak", Config: names},
		{Name: "large", Type: "python", Entrypoint: "flow:large", Config: names},
		{Name: "fail", Type: "python", Entrypoint: "flow:fail", Config: names},
		{Name: "pass_on", Type: "python", Entrypoint: "flow:pass_on", DependsOn: []string{"leak", "large"}},
		{Name: "echo", Type: "http", Config: map[string]any{
			"method": "POST", "url": elsewhere.URL + "/echo", "json": map[string]any{"token": "${{ secrets.CANARY }}"},
			"headers": map[string]any{"Authorization": "Bearer ${{ secrets.CANARY }}"},
		}},
		transform("picked", "tasks.leak.output.forms", "leak"),
	})
	run, err := api.Start(t.Context(), client.RunRequest{Deployment: "leaky", Execute: true})
	require.NoError(t, err)
	require.Equal(t, "FAILED", run.Status, "the task that raises fails")
	for _, name := range []string{"leak", "large", "pass_on", "echo", "picked"} {
		assert.Equal(t, "SUCCEEDED", run.Task(name)[0].Status, name)
	}
	assert.Equal(t, "Bearer "+canary, sent, "it was sent where it belongs")
	assert.Contains(t, string(run.Task("leak")[0].Output), "***")
	assert.Contains(t, string(run.Task("leak")[0].Output), `"length":27`, "the task had the value")

	var logs string
	require.Eventually(t, func() bool { // the archive is written after the end
		events, err := api.Log(t.Context(), run.RunID)
		require.NoError(t, err)
		data, err := json.Marshal(events)
		require.NoError(t, err)
		logs = string(data)
		return strings.Contains(logs, "printed ***") && strings.Contains(logs, "run_finished")
	}, time.Minute, 50*time.Millisecond)
	detail, err := json.Marshal(run)
	require.NoError(t, err)
	s.Stop()

	dump, stderr, code := cli(t, "dump", "--data", dir)
	require.Zero(t, code, stderr)
	assert.Contains(t, dump, "read_value", "the audit log is in the dump")
	for form, text := range map[string]string{
		"plain": canary, "base64": base64.StdEncoding.EncodeToString([]byte(canary)), "url-encoded": url.QueryEscape(canary),
		"url-quoted": strings.ReplaceAll(url.QueryEscape(canary), "+", "%20"), "JSON-escaped": strings.Trim(quoted(t, canary), `"`),
	} {
		for where, data := range map[string]string{"logs": logs, "run": string(detail), "dump": dump, "server's output": s.Output()} {
			assert.NotContains(t, data, text, "%s in the %s", form, where)
		}
		inFiles(t, dir, func(path string, data []byte) {
			assert.False(t, bytes.Contains(data, []byte(text)), "%s in %s", form, path)
		})
	}
	assert.NotContains(t, dump, "not to be taken", "values are sealed")
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	return string(data)
}

// inFiles shows the content of every file of a directory, of a compressed one both
// as it is and unpacked.
func inFiles(t *testing.T, dir string, see func(path string, data []byte)) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		see(path, data)
		if r, err := gzip.NewReader(bytes.NewReader(data)); err == nil {
			plain, err := io.ReadAll(r)
			require.NoError(t, err)
			see(path+" (unpacked)", plain)
		}
		return nil
	}))
	require.Greater(t, files, 10)
}
