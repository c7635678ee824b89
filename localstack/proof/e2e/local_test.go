package e2e

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

// story is the result of a run, local or on a server.
type story struct {
	Status  string
	Error   string            // what decided the status
	Result  string            // what the flow returns, JSON
	Tasks   []string          // task[index]#attempt status, error
	Outputs map[string]string // by task, JSON
	Lines   []string          // lines logged by tasks
}

// TestLocalRunsEqualServerRuns runs the same flows by `python flow.py` and on
// the embedded server.
func TestLocalRunsEqualServerRuns(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/local/*.py")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	api := start(t, dataDir(t)).Client()
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".py")
		t.Run(name, func(t *testing.T) {
			parameters := map[string]any{}
			if name != "failures" {
				parameters["day"] = "2026-01-31"
			}
			server := onServer(t, api, name, file, parameters)
			dir := t.TempDir() // flows may write files in their directory
			require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Dir(file))))
			local := onThisMachine(t, python{home: t.TempDir(), dir: dir}, filepath.Base(file))
			same(t, server, local)
			assert.NotEmpty(t, server.Lines)
		})
	}
}

// same requires that a run had the same result in both places. Only the first
// different line is shown.
func same(t *testing.T, server, local story) {
	t.Helper()
	for i := range max(len(server.Lines), len(local.Lines)) {
		if i >= len(server.Lines) || i >= len(local.Lines) || server.Lines[i] != local.Lines[i] {
			assert.Equal(t, server.Lines[i:min(i+20, len(server.Lines))], local.Lines[i:min(i+20, len(local.Lines))], "lines from %d", i)
			break
		}
	}
	assert.Len(t, local.Lines, len(server.Lines))
	server.Lines, local.Lines = nil, nil
	assert.Equal(t, server, local)
}

// python is how to run the interpreter.
type python struct {
	home string   // directory of the runs
	dir  string   // working directory; "": the test's directory
	path []string // of modules, besides the package
	env  []string
}

// run runs the interpreter with the package on its path.
func (p python) run(t *testing.T, arguments ...string) (stdout []byte, code int) {
	t.Helper()
	library, err := filepath.Abs(packageDir)
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), "python3", arguments...)
	cmd.Dir = p.dir
	path := strings.Join(append([]string{library}, p.path...), string(os.PathListSeparator))
	cmd.Env = append(append(os.Environ(), p.env...), "PYTHONPATH="+path, "PYTHONDONTWRITEBYTECODE=1", "MILLRACE_HOME="+p.home)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if err != nil && !failed {
		require.NoError(t, err)
	}
	if failed {
		t.Logf("python3 %s:\n%s", strings.Join(arguments, " "), stderr.String())
		return out, exit.ExitCode()
	}
	return out, 0
}

// onServer deploys a flow and runs it.
func onServer(t *testing.T, api *client.Client, name, file string, parameters map[string]any) story {
	t.Helper()
	spec, code := python{home: t.TempDir()}.run(t, "-m", "millrace", "spec", file)
	require.Zero(t, code)
	source, err := os.ReadFile(file)
	require.NoError(t, err)
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	entry, err := w.Create(filepath.Base(file))
	require.NoError(t, err)
	_, err = entry.Write(source)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return deployed(t, api, name, spec, archive.Bytes(), parameters)
}

// deployed uploads a flow with its zip and runs it.
func deployed(t *testing.T, api *client.Client, name string, spec, archive []byte, parameters map[string]any) story {
	t.Helper()
	_, err := api.Upload(t.Context(), client.Upload{FlowName: name, FlowVersion: "1", DeploymentName: name, Spec: spec, Zip: archive})
	require.NoError(t, err)
	run, err := api.Start(t.Context(), client.RunRequest{Deployment: name, Parameters: parameters, Execute: true})
	require.NoError(t, err)

	s := story{Status: run.Status, Error: words(run.ErrorMessage), Result: plain(t, run.Result), Outputs: map[string]string{}}
	instances := map[string]map[int]string{}
	for _, r := range run.TaskRuns {
		s.Tasks = append(s.Tasks, record(r.TaskName, r.MapIndex, r.Attempt, r.Status, r.ErrorType, r.ErrorMessage))
		switch output := plain(t, r.Output); {
		case r.Status == "RETRYING":
		case r.MapIndex != nil:
			if instances[r.TaskName] == nil {
				instances[r.TaskName] = map[int]string{}
			}
			instances[r.TaskName][*r.MapIndex] = output // of the last attempt
		case r.Status == "SUCCEEDED":
			s.Outputs[r.TaskName] = output
		}
	}
	for task, byIndex := range instances {
		var outputs []string
		for index := range len(byIndex) {
			outputs = append(outputs, byIndex[index])
		}
		if !slices.Contains(outputs, "") { // of a map that succeeded
			s.Outputs[task] = "[" + strings.Join(outputs, ",") + "]"
		}
	}
	events, err := api.Log(t.Context(), run.RunID)
	require.NoError(t, err)
	for _, e := range events {
		s.Lines = append(s.Lines, line(t, e.EventType, e.TaskName, e.MapIndex, e.Attempt, e.Level, e.Logger, e.Message)...)
	}
	return s.sorted()
}

// onThisMachine runs a flow without a server, with the given arguments of the
// interpreter.
func onThisMachine(t *testing.T, p python, arguments ...string) story {
	t.Helper()
	_, code := p.run(t, arguments...)
	runs, err := filepath.Glob(filepath.Join(p.home, "runs", "*"))
	require.NoError(t, err)
	require.Len(t, runs, 1)
	var run struct {
		Status string            `json:"status"`
		Error  string            `json:"error_message"`
		Result json.RawMessage   `json:"result"`
		Tasks  map[string]string `json:"tasks"`
	}
	read(t, filepath.Join(runs[0], "run.json"), &run)
	assert.Equal(t, run.Status == "SUCCEEDED", code == 0, "exit code %d", code)
	s := story{Status: run.Status, Error: words(run.Error), Outputs: map[string]string{}}
	if string(run.Result) != "null" {
		s.Result = plain(t, run.Result)
	}
	for name, status := range run.Tasks {
		var meta struct{ Attempts []client.TaskRun }
		read(t, filepath.Join(runs[0], "tasks", name, "meta.json"), &meta)
		for _, a := range meta.Attempts {
			s.Tasks = append(s.Tasks, record(name, a.MapIndex, a.Attempt, a.Status, a.ErrorType, a.ErrorMessage))
		}
		if len(meta.Attempts) == 0 {
			s.Tasks = append(s.Tasks, record(name, nil, 0, status, "", ""))
		}
		if status == "SUCCEEDED" {
			output, err := os.ReadFile(filepath.Join(runs[0], "artifacts", name+".json"))
			require.NoError(t, err)
			s.Outputs[name] = plain(t, output)
		}
	}
	log, err := os.Open(filepath.Join(runs[0], "log.jsonl"))
	require.NoError(t, err)
	defer log.Close()
	for events := json.NewDecoder(log); events.More(); {
		var e client.LogEvent
		require.NoError(t, events.Decode(&e))
		s.Lines = append(s.Lines, line(t, e.EventType, e.TaskName, e.MapIndex, e.Attempt, e.Level, e.Logger, e.Message)...)
	}
	return s.sorted()
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

// record tells of an attempt; a task that never ran has none.
func record(task string, index *int, attempt int, status, errorType, message string) string {
	if attempt == 0 || status == "SKIPPED" || status == "UPSTREAM_FAILED" {
		return fmt.Sprintf("%s %s", task, status)
	}
	return fmt.Sprintf("%s%s#%d %s %s %s", task, instance(index), attempt, status, errorType, words(message))
}

// words are what an error says without what one side tells more of: which value has
// the wrong type, where a local run's secrets come from, and whether a task that is
// too late had to be killed, for which it has a second of the machine's time.
func words(message string) string {
	for _, own := range ownWords {
		message = own.ReplaceAllString(message, "$1")
	}
	return message
}

var ownWords = []*regexp.Regexp{
	regexp.MustCompile("(no such overload: )[^`]*"),
	regexp.MustCompile(`(there is no secret named \w+)[ :][^)]*`),
	regexp.MustCompile(`(ran past its timeout_secs \(\d+\)) and was killed`),
}

func instance(index *int) string {
	if index == nil {
		return ""
	}
	return fmt.Sprintf("[%d]", *index)
}

// references to files contain the run, which differs.
var fileKey = regexp.MustCompile(`"key":"[^"]*"`)

// plain returns JSON in canonical form.
func plain(t *testing.T, data json.RawMessage) string {
	t.Helper()
	if len(data) == 0 {
		return ""
	}
	var v any
	require.NoError(t, json.Unmarshal(data, &v))
	out, err := json.Marshal(v)
	require.NoError(t, err)
	return fileKey.ReplaceAllString(string(out), `"key":"-"`)
}

// line formats a line written by a task; of a traceback only the last one,
// because paths differ.
func line(t *testing.T, kind, task string, index *int, attempt int, level, logger, message string) []string {
	t.Helper()
	if kind != "log" || task == "" {
		return nil
	}
	if logger == "traceback" {
		message = message[strings.LastIndex(message, "\n")+1:]
	}
	return []string{fmt.Sprintf("%s%s#%d %s %s: %s", task, instance(index), attempt, level, logger, message)}
}

// sorted returns the story without the order of concurrent tasks.
func (s story) sorted() story {
	slices.Sort(s.Tasks)
	slices.Sort(s.Lines)
	return s
}
