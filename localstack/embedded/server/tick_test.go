package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/catalog"
	"millrace/localstack/proof/fixture/reminders"
	"millrace/shared/platform/table"
	"millrace/shared/web/fn"
)

// openWith serves functions until the test ends, without a tick of its own.
func openWith(t *testing.T, specs []fn.Spec) *Server {
	t.Helper()
	s, err := open(t.Context(), Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", NoTick: true, Log: slog.New(slog.DiscardHandler),
	}, specs)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	return s
}

// tick invokes the scheduler's tick by HTTP.
func tick(t *testing.T, s *Server, payload string) (result events.SchedulerTickResult) {
	t.Helper()
	url := s.Credentials().BaseURL + "/2015-03-31/functions/scheduler-tick/invocations"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(payload))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+s.Credentials().LocalSecret)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Empty(t, res.Header.Get("X-Amz-Function-Error"), "%s", body)
	require.NoError(t, json.Unmarshal(body, &result))
	return result
}

// TestInvokedTickWaitsForItsEffects checks that the effects of an invoked tick
// are visible when it returns, whether its time is in the past or years ahead.
// A process can run one server at a time, so the test is not parallel.
func TestInvokedTickWaitsForItsEffects(t *testing.T) {
	s := openWith(t, catalog.With(reminders.DueSpec))
	org, now := s.Credentials().OrgID, time.Now()
	const daily = 200
	count := func(id string) reminders.Record {
		r, err := table.Load[reminders.Record](t.Context(), s.deps.Table, reminders.Key(org, id))
		require.NoError(t, err)
		return r
	}
	for i := range daily {
		r := reminders.New(reminders.Reminder, org, fmt.Sprint("r", i), now.Add(time.Hour), 24*time.Hour)
		require.NoError(t, s.deps.Table.Put(t.Context(), table.Put{Item: r}))
	}
	deadline := reminders.New(reminders.Deadline, org, "deadline", now.Add(time.Hour), 0)
	require.NoError(t, s.deps.Table.Put(t.Context(), table.Put{Item: deadline}))

	assert.Zero(t, tick(t, s, `{"event_type":"scheduler_tick"}`).Checked)
	for day := range 3 {
		at := now.Add(time.Duration(2+24*day) * time.Hour).UTC().Truncate(time.Second)
		result := tick(t, s, `{"event_type":"scheduler_tick","now":"`+at.Format(time.RFC3339)+`"}`)
		require.Equal(t, events.SchedulerTickResult{Status: "processed", Checked: daily, Triggered: daily}, result)
		for i := range daily {
			got := count(fmt.Sprint("r", i))
			require.Equal(t, day+1, got.Count, "settled when the tick answers")
			require.Equal(t, at, got.Now.Time())
		}
	}
	assert.Zero(t, tick(t, s, `{"event_type":"scheduler_tick","now":"2020-01-01T00:00:00+02:00"}`).Checked)
	assert.Zero(t, count("deadline").Count, "a deadline goes by the clock")
}
