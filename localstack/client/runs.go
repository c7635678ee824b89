package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Run is a run. It includes its task records if it was requested by id.
type Run struct {
	RunID           string         `json:"run_id"`
	Slug            string         `json:"run_slug"`
	FlowName        string         `json:"flow_name"`
	FlowVersion     string         `json:"flow_version"`
	Deployment      string         `json:"deployment"`
	Environment     string         `json:"environment"`
	TriggeredBy     string         `json:"triggered_by"`
	Status          string         `json:"status"`
	Reason          string         `json:"reason"`
	ErrorMessage    string         `json:"error_message"`
	CreatedAt       time.Time      `json:"created_at"`
	StartedAt       time.Time      `json:"started_at"`
	DurationMS      int64          `json:"duration_ms"`
	ExecutionMode   string         `json:"execution_mode"`
	Parameters      map[string]any `json:"parameters"`
	ParentRunID     string         `json:"parent_run_id"`
	ReusedTaskCount int            `json:"reused_task_count"`
	SkipTaskIDs     []string       `json:"skip_task_ids"`
	TaskRuns        []TaskRun      `json:"task_runs"`

	Result    json.RawMessage `json:"result"`     // of the flow; nil if it has none, or if it is large
	ResultURI string          `json:"result_uri"` // of a large one
}

// Ended reports whether the run is in a final state.
func (r *Run) Ended() bool {
	return slices.Contains([]string{"SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED"}, r.Status)
}

// Task returns the records of a task, one for each instance and attempt.
func (r *Run) Task(name string) []TaskRun {
	var out []TaskRun
	for _, t := range r.TaskRuns {
		if t.TaskName == name {
			out = append(out, t)
		}
	}
	return out
}

// TaskRun is the record of one attempt of a task or map instance.
type TaskRun struct {
	TaskName     string          `json:"task_name"`
	TaskRunID    string          `json:"task_run_id"`
	MapIndex     *int            `json:"map_index"`
	Attempt      int             `json:"attempt"`
	Status       string          `json:"status"`
	Reason       string          `json:"reason"`
	DurationMS   *int64          `json:"duration_ms"`
	ErrorType    string          `json:"error_type"`
	ErrorMessage string          `json:"error_message"`
	Output       json.RawMessage `json:"output"`
	OutputURI    string          `json:"output_uri"`
}

// RunRequest is the body of POST /runs.
type RunRequest struct {
	Deployment  string         `json:"deployment,omitempty"`
	FlowName    string         `json:"flow_name,omitempty"`
	FlowVersion string         `json:"flow_version,omitempty"`
	Parameters  map[string]any `json:"parameters,omitempty"`
	Execute     bool           `json:"execute,omitempty"`

	Environment    string `json:"environment,omitempty"`
	ExecutionMode  string `json:"execution_mode,omitempty"`
	IdempotencyKey string `json:"-"` // empty: none is sent
}

// Start accepts a run. With Execute set, it returns the finished run.
func (c *Client) Start(ctx context.Context, in RunRequest) (Run, error) {
	var run Run
	var header http.Header
	if in.IdempotencyKey != "" {
		header = http.Header{"Idempotency-Key": {in.IdempotencyKey}}
	}
	return run, c.do(ctx, http.MethodPost, "/runs", header, in, &run)
}

// Run reads a run.
func (c *Client) Run(ctx context.Context, id string) (Run, error) {
	var run Run
	return run, c.Do(ctx, http.MethodGet, "/runs/"+id, nil, &run)
}

// Watch polls a run until it has ended, and passes each state to seen, which
// may be nil.
func (c *Client) Watch(ctx context.Context, id string, every time.Duration, seen func(Run)) (Run, error) {
	for {
		run, err := c.Run(ctx, id)
		if err != nil {
			return run, err
		}
		if seen != nil {
			seen(run)
		}
		if run.Ended() {
			return run, nil
		}
		if !pause(ctx, every) {
			return run, ctx.Err()
		}
	}
}

// RetryFromFailed starts a retry that reuses successful tasks, with the code of
// the run.
func (c *Client) RetryFromFailed(ctx context.Context, id string) (Run, error) {
	return c.RetryFromFailedWith(ctx, id, "")
}

// RetryFromFailedWith is like RetryFromFailed with the code of another version
// of the flow; "" is the run's version.
func (c *Client) RetryFromFailedWith(ctx context.Context, id, version string) (Run, error) {
	path := "/runs/" + id + "/retry-from-failed"
	if version != "" {
		path += "?" + url.Values{"flow_version": {version}}.Encode()
	}
	var run Run
	return run, c.Do(ctx, http.MethodPost, path, nil, &run)
}

// LogEvent is one event of a run's log.
type LogEvent struct {
	EventType string `json:"event_type"`
	Message   string `json:"message"`
	Timestamp string `json:"timestamp"`
	Level     string `json:"level"`
	TaskName  string `json:"task_name"`
	MapIndex  *int   `json:"map_index"`
	Attempt   int    `json:"attempt"`
	Logger    string `json:"logger"`
	// Fields are the fields passed to ctx.log besides the message.
	Fields map[string]json.RawMessage `json:"fields"`
}

// LogPage is a page of a run's log, with its events as the server wrote them. A
// page may be empty. A live run always has a next token.
type LogPage struct {
	Events    []json.RawMessage `json:"events"`
	NextToken string            `json:"next_token"`
	Source    string            `json:"source"` // live or archive; the archive is the complete log of an ended run
}

// LogFilter selects events of a log; what is empty selects all.
type LogFilter struct {
	Task  string
	Level string // of this level or a more serious one
	Since time.Time
	Limit int // events of a page
}

// LogPage reads the page of a token, the first one for "". The token of a page is for
// the filter of that page.
func (c *Client) LogPage(ctx context.Context, id string, filter LogFilter, token string) (LogPage, error) {
	query := url.Values{"next_token": {token}}
	if filter.Task != "" {
		query.Set("task_name", filter.Task)
	}
	if filter.Level != "" {
		query.Set("level", filter.Level)
	}
	if !filter.Since.IsZero() {
		query.Set("since", filter.Since.UTC().Format(time.RFC3339Nano))
	}
	if filter.Limit > 0 {
		query.Set("limit", strconv.Itoa(filter.Limit))
	}
	var page LogPage
	return page, c.Do(ctx, http.MethodGet, "/runs/"+id+"/logs?"+query.Encode(), nil, &page)
}

// Log returns the whole log of a finished run. It waits, until ctx ends, for
// the archive that replaces the live log shortly after the end of the run.
func (c *Client) Log(ctx context.Context, id string) ([]LogEvent, error) {
	var out []LogEvent
	token := ""
	for {
		page, err := c.LogPage(ctx, id, LogFilter{}, token)
		if err != nil {
			return nil, err
		}
		for _, data := range page.Events {
			var event LogEvent
			if err := json.Unmarshal(data, &event); err != nil {
				return nil, err
			}
			out = append(out, event)
		}
		if page.NextToken == "" {
			return out, nil
		}
		if len(page.Events) == 0 && !pause(ctx, 20*time.Millisecond) {
			return nil, ctx.Err()
		}
		token = page.NextToken
	}
}
