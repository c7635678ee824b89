package runs

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"90m": now.Add(-90 * time.Minute), "1d": now.AddDate(0, 0, -1), "0s": now, "2026-03-04T00:00:00Z": now.Add(-12 * time.Hour),
	} {
		got, err := Since(text, now)
		require.NoError(t, err, text)
		assert.True(t, want.Equal(got), "%s is %s", text, got)
	}
	for _, text := range []string{"", "1x", "-1h", "-1d", "yesterday"} {
		_, err := Since(text, now)
		assert.ErrorContains(t, err, "is neither a duration such as 90m or 7d nor a time", text)
	}
}

func TestParametersAreParsedBySchema(t *testing.T) {
	t.Parallel()
	var s spec
	require.NoError(t, json.Unmarshal([]byte(`{"parameters":{"properties":{"day":{"type":"string"},"n":{"type":"integer"},"any":{}}}}`), &s))
	o := starting{file: "-", params: []string{"day=2026", "n=3", "any=[1]", "other=a=b", "quoted=\"3\""}}
	got := map[string]any{}
	require.NoError(t, o.parameters(strings.NewReader(`{"n": 1, "big": 12345678901234567890}`), s, got))
	text, err := json.Marshal(got)
	require.NoError(t, err)
	assert.JSONEq(t, `{"day":"2026","n":3,"any":[1],"other":"a=b","quoted":"3","big":12345678901234567890}`, string(text))
	for _, wrong := range []starting{{params: []string{"day"}}, {params: []string{"=3"}}, {file: "-"}, {file: "/nonexistent"}} {
		err := wrong.parameters(strings.NewReader(`[`), s, map[string]any{})
		assert.Equal(t, command.WrongUsage, command.Code(err), "%+v", wrong)
	}
	for text, want := range map[string]string{
		"[1]": "--params - is a JSON array, not an object of parameters", "null": "--params - is no JSON object: it is null",
		"{} {}": "--params - is no JSON object: more follows its end",
	} {
		err := (&starting{file: "-", params: []string{"n=1"}}).parameters(strings.NewReader(text), s, map[string]any{})
		require.EqualError(t, err, want)
	}
}

func at(i int) *int { return &i }

func TestOutputIsFromNewestAttempt(t *testing.T) {
	t.Parallel()
	run := client.Run{Slug: "a-b-c-1", TaskRuns: []client.TaskRun{
		{TaskName: "one", Attempt: 1, Status: "FAILED"},
		{TaskName: "one", Attempt: 2, Status: "SUCCEEDED", Output: json.RawMessage(`"text"`)},
		{TaskName: "big", Attempt: 1, Status: "SUCCEEDED", OutputURI: "objstore://x"},
		{TaskName: "each", MapIndex: at(0), Attempt: 1, Output: json.RawMessage(`10`)},
		{TaskName: "each", MapIndex: at(2), Attempt: 1, Output: json.RawMessage(`30`)},
		{TaskName: "mixed", MapIndex: at(0), Attempt: 1, Output: json.RawMessage(`1`)},
		{TaskName: "mixed", MapIndex: at(1), Attempt: 1, OutputURI: "objstore://y"},
		{TaskName: "none", Attempt: 1, Status: "SKIPPED"},
	}}
	for name, c := range map[string]struct {
		task, index, want string
		whole             bool
	}{
		"retried":               {"one", "", `"text"`, true},
		"large":                 {"big", "", "", false},
		"list":                  {"each", "", `[10,null,30]`, true},
		"instance":              {"each", "2", "30", true},
		"list with a large one": {"mixed", "", "", false},
		"large instance":        {"mixed", "1", "", false},
	} {
		value, whole, err := inline(run, c.task, c.index)
		require.NoError(t, err, name)
		assert.Equal(t, c.whole, whole, name)
		assert.Equal(t, c.want, string(value), name)
	}
	for _, missing := range [][2]string{{"nobody", ""}, {"each", "1"}, {"each", "9"}, {"one", "0"}, {"none", ""}} {
		_, _, err := inline(run, missing[0], missing[1])
		assert.Equal(t, command.NotFound, command.Code(err), "%v: %v", missing, err)
	}
}

// TestProgressPrintsEachChangeOnce shows three states of a run.
func TestProgressPrintsEachChangeOnce(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	p := &progress{out: output.New(&b, false), seen: map[string]string{}}
	took := int64(1500)
	running := client.Run{TaskRuns: []client.TaskRun{{TaskName: "load", Attempt: 1, Status: "RUNNING"}}}
	p.show(running)
	p.show(running)
	p.show(client.Run{TaskRuns: []client.TaskRun{
		{TaskName: "load", Attempt: 1, Status: "FAILED", DurationMS: &took, ErrorMessage: "no\nmore"},
		{TaskName: "load", Attempt: 2, Status: "RUNNING"},
	}})
	assert.Equal(t, "load                     RUNNING\nload                     FAILED     1.5s no\nload                     RUNNING    attempt 2\n", b.String())
}

func TestMappedTasksAreSummarized(t *testing.T) {
	t.Parallel()
	run := client.Run{TaskRuns: []client.TaskRun{
		{TaskName: "rows", Attempt: 1, Status: "SUCCEEDED"},
		{TaskName: "each", MapIndex: at(0), Attempt: 1, Status: "FAILED"},
		{TaskName: "each", MapIndex: at(0), Attempt: 2, Status: "SUCCEEDED"},
		{TaskName: "each", MapIndex: at(1), Attempt: 1, Status: "RUNNING"},
		{TaskName: "old", MapIndex: at(0), Attempt: 1, Status: "REUSED"},
		{TaskName: "done", MapIndex: at(0), Attempt: 1, Status: "REUSED"},
		{TaskName: "done", MapIndex: at(1), Attempt: 1, Status: "SUCCEEDED"},
	}}
	assert.Equal(t, []summary{
		{"rows", "SUCCEEDED", ""}, {"each", "RUNNING", "1 of 2"}, {"old", "REUSED", "1 of 1"}, {"done", "SUCCEEDED", "2 of 2"},
	}, summaries(run))
}

func TestLogFieldsFollowMessage(t *testing.T) {
	t.Parallel()
	for data, want := range map[string]string{
		`{}`:                             "",
		`{"day":"mon","rows":3}`:         " day=mon rows=3",
		`{"path":"a\/b","ids":[1,null]}`: " ids=[1,null] path=a/b",
	} {
		var all map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(data), &all))
		assert.Equal(t, want, fields(all), data)
	}
}
