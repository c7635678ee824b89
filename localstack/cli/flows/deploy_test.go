package flows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

func TestRuntimeIsReportedByServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   Runtime
		wrong  bool
	}{
		"reported":     {200, `{"items":[{"name":"http","runtime":null},{"name":"python","runtime":{"platform":"linux/arm64","python_version":"3.13"}}]}`, Runtime{"linux/arm64", "3.13"}, false},
		"not reported": {200, `{"items":[{"name":"python"}]}`, Runtime{}, false},
		"not allowed":  {403, `{"detail":"no"}`, Runtime{}, false},
		"older":        {404, `{"detail":"no"}`, Runtime{}, false},
		"no key":       {401, `{"detail":"no"}`, Runtime{}, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		t.Cleanup(server.Close)
		on, err := RuntimeOf(t.Context(), &client.Client{BaseURL: server.URL})
		assert.Equal(t, c.want, on, name)
		assert.Equal(t, c.wrong, err != nil, name)
	}
}

// TestPackagesAreInstalledForServersPlatform names a platform that no package supports.
func TestPackagesAreInstalledForServersPlatform(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("flow.py", "from millrace import flow, task\n@task\ndef a(): return 1\n@flow\ndef f(): a()\n")
	write("requirements.txt", "anything==1\n")
	_, err := collect(t.Context(), dir, Runtime{"plan9/mips", "3.13"}, io.Discard)
	require.ErrorContains(t, err, "the platform 'plan9/mips' is not known")
	write("requirements.txt", "# none\n")
	made, err := collect(t.Context(), dir, Runtime{"linux/arm64", "3.13"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, made.Flows, 1)
	assert.Equal(t, "flow.py", made.Flows[0].File)
	assert.Equal(t, []string{"flow.py:2"}, made.Flows[0].Lines)
	assert.NotEmpty(t, made.Zip)
}

func TestErrorsNameFileAndLine(t *testing.T) {
	t.Parallel()
	f := Flow{Name: "daily", File: "flow.py", Line: 9, Lines: []string{"flow.py:3", ""}}
	refusal := func(detail string) error {
		return fmt.Errorf("complete: %w", &client.Error{Status: 422, Body: `{"detail":` + detail + `}`})
	}
	for detail, want := range map[string]string{
		`[{"loc":["body","flow_spec","tasks",0,"name"],"msg":"x"},{"loc":["body","flow_spec"],"msg":"y"}]`: "flow.py:3: body.flow_spec.tasks[0].name: x\nflow.py:9: body.flow_spec: y",
		`[{"loc":["body","flow_spec","tasks",1],"msg":"x"}]`:                                               "flow.py:9: body.flow_spec.tasks[1]: x",
		`[{"loc":["body","flow_spec","tasks",7],"msg":"x"}]`:                                               "flow.py:9: body.flow_spec.tasks[7]: x",
		`"too many versions"`: "flow.py:9: too many versions",
	} {
		assert.EqualError(t, f.Locate(refusal(detail)), want)
	}
	assert.EqualError(t, Flow{Name: "daily"}.Locate(refusal(`"no"`)), "daily: no")
	assert.EqualError(t, f.Locate(io.EOF), "EOF")

	assert.EqualError(t, f.describe("7", refusal(`[{"loc":["body","flow_spec","tasks",0],"msg":"x"}]`)), "flow.py:3: body.flow_spec.tasks[0]: x")
	assert.ErrorContains(t, f.describe("7", refusal(`[{"loc":["body","size_bytes"],"msg":"Input should be less"}]`)), "daily 7: the zip of the folder is larger than the server takes: ")
	elsewhere := f.describe("7", refusal(`[{"loc":["body","schedule"],"msg":"x"}]`))
	require.ErrorContains(t, elsewhere, "daily 7: ")
	_, isRefusal := errors.AsType[*client.Error](elsewhere)
	assert.True(t, isRefusal, "it has an exit code and a request of its own")
}

// TestCheckReportsFlowsThatServerRejects checks two flows, of which the server accepts
// one.
func TestCheckReportsFlowsThatServerRejects(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		asked = append(asked, r.Method+" "+r.URL.Path+" "+string(body))
		if strings.Contains(string(body), `"flow_name":"bad"`) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"detail":[{"loc":["body","flow_spec","tasks",0],"msg":"x"}]}`)
			return
		}
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"deployment_version":2}`)
			return
		}
		fmt.Fprint(w, `{"flow_name":"daily","dry_run":true,"deployment":{"deployment_name":"daily","deployment_version":3,"environment":"prod","environment_created":true,"next_run_epoch":1}}`)
	}))
	t.Cleanup(server.Close)
	o := deploying{check: true, version: "7", tier: "small", environment: "prod", schedule: "@daily", scheduled: true, timezone: "Asia/Tokyo"}
	code := &Code{Files: 2, Zip: make([]byte, 2048), Flows: []Flow{
		{Name: "bad", File: "flow.py", Line: 9, Lines: []string{"flow.py:3"}, Spec: json.RawMessage(`{}`)},
		{Name: "daily", Spec: json.RawMessage(`{"tasks":[]}`)},
	}}
	var out bytes.Buffer
	c := &cobra.Command{}
	c.SetContext(t.Context())
	err := o.all(c, output.New(&out, false), &client.Client{BaseURL: server.URL}, code)
	require.EqualError(t, err, "flow.py:3: body.flow_spec.tasks[0]: x")
	printer := output.New(&bytes.Buffer{}, false)
	assert.Equal(t, "daily 7 (2 files, 2 KB): the server would take it; deployment daily: 2 -> 3\n"+
		"the environment prod is new: it would be made for this deployment\nnext run by its schedule: "+printer.Time(time.Unix(1, 0))+"\n", out.String())
	require.Len(t, asked, 4)
	assert.Equal(t, `GET /deployments/daily `, asked[2])
	assert.Equal(t, `POST /flows {"deployment_name":"daily","dry_run":true,"environment":"prod","execution_mode":"small","flow_name":"daily",`+
		`"flow_spec":{"tasks":[]},"flow_version":"7","schedule":"@daily","timezone":"Asia/Tokyo"}`, asked[3])
}
