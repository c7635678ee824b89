package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// examplesDir has a directory for each example.
const examplesDir = "../../examples"

// example is a flow of examplesDir, and its expected result.
type example struct {
	flow         string // its file; "": flow.py
	result       string // JSON
	status       string // "": SUCCEEDED
	dependencies int    // packages in its zip
	check        func(*testing.T, story)
}

// has returns a check that lines are among those written by tasks.
func has(lines ...string) func(*testing.T, story) {
	return func(t *testing.T, s story) {
		t.Helper()
		assert.Subset(t, s.Lines, lines)
	}
}

// examples are those that run without the demo's pages (etl, flaky) and do not
// wait for hours (patience, see TestPatience).
var examples = map[string]example{
	"csv": {
		result: `{"rows":200000,"cents":{"north":249900000,"east":250050000,"south":250000000,"west":249950000}}`,
		check: func(t *testing.T, s story) {
			t.Helper()
			assert.Len(t, s.Tasks, 52)
			assert.Contains(t, s.Lines, "add_up[49]#1 info stdout: partition 49: 4000 rows")
		},
	},
	"packages": {dependencies: 5, result: `["a-package|dotted|1.0","a-package|native|1.0","a-package|slugs|1.0","a-package|units|2.0"]`},
	"noisy":    {result: `10000`, check: checkNoise},
	"async": {
		result: `["page 0: 3","page 1: 33","page 2: 63","page 3: 93"]`,
		check: has("enrich[2]#1 error traceback: ConnectionResetError: the peer went away",
			"hangs#1 info stdout: cleaned up", "pages#1 info stdout: fetched 3"),
	},
	"subprocesses": {
		result: `{"status":3,"captured":{"lines":2,"traced":true},"killed":-9,"missing":"No such file or directory"}`,
		check: func(t *testing.T, s story) {
			t.Helper()
			has("speak#1 info stdout: to the log", "speak#1 warning stderr: careful", "killed#1 info stdout: killed by SIGKILL",
				"strict#1 info stdout: attempt 1", "strict#2 info stdout: attempt 2")(t, s)
			assert.Contains(t, s.Tasks, "strict#2 FAILED TaskFailedError CalledProcessError: Command '['sh', '-c', 'echo attempt 2; exit 4']' returned non-zero exit status 4.")
		},
	},
	"files":   {result: `{"same":true,"sizes":[6,5000],"text":"first\n"}`, check: has("check#1 info stdout: not writable: files of tasks are read-only: write another one and save that")},
	"layout":  {flow: "src/acme/flows/daily.py", result: `{"total":24,"currency":"EUR","known":2,"tea":4,"module":"acme.flows.daily"}`},
	"library": {result: `{"orders":5,"items":3,"users":2,"prices":0,"days":1}`, check: has("copy_prices#1 info stdout: copied 0 rows of prices", "copy_table_4#1 info stdout: copied 1 rows of day_1")},
	"cleanup": {
		status: "FAILED",
		check: func(t *testing.T, s story) {
			t.Helper()
			has("tell#1 info stdout: 3 failed",
				"tell#1 info stdout: fill[1], attempt 1: TaskFailedError: ValueError: partition 1 of scratch_7 is empty",
				"tell#1 info stdout: fill[3], attempt 1: TaskFailedError: ValueError: partition 3 of scratch_7 is empty",
				"tell#1 info stdout: publish, attempt 2: TaskFailedError: ConnectionError: the catalog is away",
				"drop#1 info stdout: dropped scratch_7", "on_error#1 info stdout: on_error runs", "unless_failed#1 info stdout: unless_failed runs")(t, s)
			assert.Subset(t, s.Tasks, []string{"on_success UPSTREAM_FAILED", "no_error SKIPPED", "drop#1 SUCCEEDED  "})
		},
	},
}

// checkNoise checks that each line is one event, and that a line over 64 KB is
// one for each 64 KB, whoever wrote it.
func checkNoise(t *testing.T, s story) {
	t.Helper()
	const prefix, cut = "chatter#1 info stdout: ", 64 << 10
	size, long := 0, map[byte][]int{}
	for _, line := range s.Lines {
		text, ok := strings.CutPrefix(line, prefix)
		require.True(t, ok, "%.200s", line)
		size += len(text) + 1
		if len(text) > 1000 {
			long[text[0]] = append(long[text[0]], len(text))
		}
	}
	pieces := []int{150_000 - 2*cut, cut, cut}
	assert.Greater(t, size, 10_000_000)
	assert.Equal(t, map[byte][]int{'y': pieces, 'z': pieces}, long)
	assert.Len(t, s.Lines, 10_000+2*len(pieces)+2)
	assert.True(t, strings.HasPrefix(s.Lines[9_999], prefix+"00009999 xxx"))
	assert.Subset(t, s.Lines, []string{prefix + "the child is done", prefix + "no end of line"})
}

// TestExamples runs each example by `python flow.py`, or `python -m millrace
// run` for the one in a package, and on the embedded server, packed by
// `millrace pack`.
func TestExamples(t *testing.T) {
	t.Parallel()
	sources(t)
	index := wheels(t)
	api := start(t, dataDir(t)).Client()
	for name, e := range examples {
		t.Run(name, func(t *testing.T) {
			dir := exampleDir(t, name)
			p, run := python{home: t.TempDir(), dir: dir}, []string{"flow.py"}
			if e.flow != "" {
				run = []string{"-m", "millrace", "run", e.flow}
			}
			if name == "packages" {
				installed := t.TempDir()
				command(t, dir, index, "python3", "-m", "pip", "install", "-q", "--target", installed, "-r", "requirements.txt")
				p.path, p.env = []string{installed}, index
			}
			spec, archive, dependencies := pack(t, p, e.flow)
			assert.Len(t, dependencies, e.dependencies)
			server := deployed(t, api, name, spec, archive, nil)
			local := onThisMachine(t, p, run...)
			same(t, server, local)
			if e.status == "" {
				e.status = "SUCCEEDED"
			}
			assert.Equal(t, e.status, server.Status)
			if e.result != "" {
				assert.JSONEq(t, e.result, server.Result)
			} else {
				assert.Empty(t, server.Result)
			}
			if e.check != nil {
				e.check(t, server)
			}
		})
	}
}

// TestExamplesAreListed checks that each has a row in the README, and a test.
func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(examplesDir, "README.md"))
	require.NoError(t, err)
	entries, err := os.ReadDir(examplesDir)
	require.NoError(t, err)
	elsewhere := []string{"etl", "flaky", "patience", "training"} // tested by the demo, TestPatience and make numpy
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		assert.Contains(t, string(readme), fmt.Sprintf("\n| [%s](%[1]s", entry.Name()))
		_, tested := examples[entry.Name()]
		assert.True(t, tested || slices.Contains(elsewhere, entry.Name()), entry.Name())
	}
}

// exampleDir returns the absolute path of an example. It reads the example's
// files, so that go test does not cache the result when they change.
func exampleDir(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(examplesDir, name))
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	}))
	return dir
}

// pack returns a flow's flow_spec and the zip of its code. The flow is flow.py
// unless it is set. dependencies are the packages in the zip.
func pack(t *testing.T, p python, flow string) (spec, archive []byte, dependencies []any) {
	t.Helper()
	what := flow
	if flow == "" {
		flow, what = "flow.py", "."
	}
	spec, code := p.run(t, "-m", "millrace", "spec", flow)
	require.Zero(t, code)
	file := filepath.Join(t.TempDir(), "artifact.zip")
	out, code := p.run(t, "-m", "millrace", "pack", what, "-o", file)
	require.Zero(t, code)
	var packed struct {
		Dependencies []any `json:"dependencies"`
	}
	require.NoError(t, json.Unmarshal(out, &packed))
	archive, err := os.ReadFile(file)
	require.NoError(t, err)
	return spec, archive, packed.Dependencies
}

// wheels builds the wheels of the five packages of examples/packages. It
// returns the environment that makes installers use only them.
func wheels(t *testing.T) []string {
	t.Helper()
	links := t.TempDir()
	build := "import sys\nfrom tests import wheels\n" +
		"for name in ('dotted', 'native', 'slugs', 'tables'): wheels.build(sys.argv[1], name)\nwheels.build(sys.argv[1], 'units', '2.0')"
	command(t, sources(t), nil, "python3", "-c", build, links)
	return []string{"PIP_NO_INDEX=1", "PIP_FIND_LINKS=" + links, "PIP_CONFIG_FILE=" + os.DevNull}
}

// TestDeployWithoutInstalledDependencies deploys without installing the zip's
// packages, and with a package without __init__.py below src.
func TestDeployWithoutInstalledDependencies(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	u := &user{t: t, dir: t.TempDir(), env: append(wheels(t),
		"MILLRACE_URL="+s.Credentials.BaseURL, "MILLRACE_API_KEY="+s.Credentials.APIKey, "MILLRACE_HOME="+t.TempDir())}
	u.must("deploy", exampleDir(t, "packages"))
	assert.Contains(t, u.must("run", "packages", "-w"), "SUCCEEDED in ")

	team := filepath.Join(u.dir, "src", "team")
	require.NoError(t, os.MkdirAll(team, 0o755))
	for file, text := range map[string]string{
		filepath.Join(u.dir, "pyproject.toml"): "",
		filepath.Join(team, "names.py"):        "NAME = 'team'\n",
		filepath.Join(team, "daily.py"):        "from millrace import flow, task\nfrom .names import NAME\n\n@task\ndef name(): return NAME\n\n@flow\ndef named(): name()\n",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	u.must("deploy", "src/team/daily.py")
	u.must("run", "named", "-w")
	assert.Equal(t, "team", u.must("output", "last", "name"))
}
