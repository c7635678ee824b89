package runs_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/runlog"
)

type logPage struct {
	Events []struct {
		EventType string `json:"event_type"`
		Message   string `json:"message"`
		Timestamp string `json:"timestamp"`
		TaskName  string `json:"task_name"`
		TaskRunID string `json:"task_run_id"`
		Attempt   int    `json:"attempt"`
	} `json:"events"`
	NextToken *string `json:"next_token"`
	Source    string  `json:"source"`
}

// page reads one page. Limit 0 sends none.
func (w world) page(t *testing.T, run string, limit int, token string) logPage {
	t.Helper()
	q := url.Values{}
	if limit > 0 {
		q.Set("limit", fmt.Sprint(limit))
	}
	if token != "" {
		q.Set("next_token", token)
	}
	var p logPage
	w.Do(t, w.A.Key, "GET", "/runs/"+run+"/logs?"+q.Encode(), nil).Require(t, 200).Into(t, &p)
	return p
}

// write logs events of a run, numbered from from, and flushes them.
func (w world) write(t *testing.T, run string, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		w.Deps.Logs.Append(w.A.OrgID, run, runlog.Event{
			EventType: runlog.TypeLog, Message: fmt.Sprint(i), RunID: run, Timestamp: clock.ToMillis(w.Clock.Now()),
		})
	}
	require.NoError(t, w.Deps.Logs.Flush(t.Context(), w.A.OrgID, run))
	w.Clock.Advance(time.Second)
}

func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprint(i)
	}
	return out
}

func TestLogOfRun(t *testing.T) {
	t.Parallel()
	w := live(t)
	w.flow(t, "etl", "1", chain)
	d := w.finish(t, "etl", nil)
	require.Eventually(t, func() bool { return w.page(t, d.RunID, 0, "").Source == "archive" }, 10*time.Second, 5*time.Millisecond)
	p := w.page(t, d.RunID, 0, "")
	assert.Nil(t, p.NextToken, "an archive may answer all events without a token")
	var types []string
	for _, e := range p.Events {
		types = append(types, e.EventType)
		assert.NotEmpty(t, e.Message)
		_, err := time.Parse("2006-01-02T15:04:05.000Z", e.Timestamp)
		require.NoError(t, err)
		if e.TaskName != "" {
			i := slices.IndexFunc(d.TaskRuns, func(r taskRun) bool { return r.TaskName == e.TaskName })
			assert.Equal(t, d.TaskRuns[i].TaskRunID, e.TaskRunID)
		}
	}
	assert.Equal(t, []string{"run_started", "task_started", "task_succeeded", "task_started", "task_succeeded", "run_finished"}, types)
}

func TestLogPagesContinueInArchive(t *testing.T) {
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	other := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	w.become(t, id, engine.Running)

	empty := w.page(t, id, 0, "")
	assert.Equal(t, "live", empty.Source)
	assert.Empty(t, empty.Events)
	require.NotNil(t, empty.NextToken, "an empty page is not the end")

	var got []string
	token := *empty.NextToken
	read := func(limit int) logPage {
		p := w.page(t, id, limit, token)
		for _, e := range p.Events {
			got = append(got, e.Message)
		}
		assert.LessOrEqual(t, len(p.Events), limit)
		token = ""
		if p.NextToken != nil {
			token = *p.NextToken
		}
		return p
	}
	w.write(t, id, 0, 10)
	read(4) // ends within a batch
	w.write(t, id, 10, 10)
	read(9) // across two
	assert.Equal(t, "live", read(100).Source)
	assert.Equal(t, numbers(20), got)
	assert.Empty(t, read(100).Events)
	w.write(t, id, 20, 10)
	read(3)

	w.write(t, id, 30, 5)
	w.become(t, id, engine.Succeeded)
	require.NoError(t, w.Deps.Logs.Archive(t.Context(), w.A.OrgID, id))
	assert.Equal(t, "archive", read(5).Source)
	for token != "" {
		read(5)
	}
	assert.Equal(t, numbers(35), got, "nothing lost, nothing twice")

	got = nil
	assert.Equal(t, "archive", read(runlog.MaxLimit).Source)
	assert.Equal(t, numbers(35), got)
	assert.Empty(t, token)

	w.write(t, other, 0, 1)
	foreign := w.page(t, other, 0, "").NextToken
	w.Do(t, w.A.Key, "GET", "/runs/"+id+"/logs?next_token="+*foreign, nil).Require(t, 400)
	w.Do(t, w.A.Key, "GET", "/runs/"+other+"/logs?next_token="+*foreign+"x", nil).Require(t, 400)
}

func TestLimitsOfLogPage(t *testing.T) {
	w := idle(t)
	w.flow(t, "etl", "1", chain)
	id := w.run(t, object{"flow_name": "etl", "flow_version": "1"})
	w.write(t, id, 0, 10_050)
	assert.Len(t, w.page(t, id, 0, "").Events, 500, "the default")
	p := w.page(t, id, 20_000, "")
	assert.Len(t, p.Events, 10_000, "the most")
	rest := w.page(t, id, 20_000, *p.NextToken)
	require.Len(t, rest.Events, 50)
	assert.Equal(t, "10000", rest.Events[0].Message)
	one := w.Do(t, w.A.Key, "GET", "/runs/"+id+"/logs?limit=1", nil).Get(t, "events", 0).(object)
	assert.Equal(t, "log", one["event_type"])
	assert.Equal(t, id, one["run_id"])
	data, err := json.Marshal(one)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "null", "fields that do not apply are absent")
}
