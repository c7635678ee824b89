package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

const flood = `
def talk(ctx):
    for i in range(ctx.params["lines"]):
        print("line", i)
`

type event struct {
	EventType string `json:"event_type"`
	Message   string `json:"message"`
	Sequence  int64  `json:"sequence"`
}

// lines reads a log page by page and returns its number of lines, which must be
// in order.
func (s *service) lines(ctx context.Context, id string, limit int) (lines, pages int) {
	s.t.Helper()
	token := ""
	for {
		var page struct {
			Events    []event `json:"events"`
			NextToken string  `json:"next_token"`
			Source    string  `json:"source"`
		}
		query := url.Values{"next_token": {token}, "limit": {fmt.Sprint(limit)}}
		require.NoError(s.t, s.Do(ctx, "GET", "/runs/"+id+"/logs?"+query.Encode(), nil, &page))
		if page.Source == "live" && len(page.Events) == 0 {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				require.Fail(s.t, "the log does not end")
			}
		}
		pages++
		require.LessOrEqual(s.t, len(page.Events), limit)
		for _, e := range page.Events {
			if e.EventType != "log" {
				continue
			}
			require.Equal(s.t, fmt.Sprint("line ", lines), e.Message)
			lines++
			require.EqualValues(s.t, lines, e.Sequence)
		}
		if token = page.NextToken; token == "" {
			return lines, pages
		}
	}
}

// TestManyLines writes a very long log and reads it while it is written and
// after it was archived.
func TestManyLines(t *testing.T) {
	s := start(t)
	s.upload("talk", flood, python("talk"))
	n := size(50_000, 1_000_000)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	began := time.Now()
	id := s.begin(client.RunRequest{Deployment: "talk", Parameters: object{"lines": n}}).RunID
	lines, pages := s.lines(ctx, id, 10_000)
	took := time.Since(began)
	assert.Equal(t, n, lines)
	run := s.end(id, time.Minute)
	require.Equal(t, "SUCCEEDED", run.Status, run.ErrorMessage)
	t.Logf("%d lines followed in %d pages; the task took %d ms, the log %s; peak memory %d MB", lines, pages, run.DurationMS, took.Round(time.Millisecond), s.peak()>>20)

	began = time.Now()
	lines, pages = s.lines(ctx, id, 500)
	assert.Equal(t, n, lines)
	t.Logf("%d lines of the archive in %d pages of 500: %s, peak memory %d MB", lines, pages, time.Since(began).Round(time.Millisecond), s.peak()>>20)
	assert.Less(t, s.peak(), int64(200<<20))
}

func number(t *testing.T, raw json.RawMessage) int64 {
	t.Helper()
	var n int64
	require.NoError(t, json.Unmarshal(raw, &n), "%s", raw)
	return n
}
