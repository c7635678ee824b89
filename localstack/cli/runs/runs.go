// Package runs has the commands about runs: to start, watch, read, retry and cancel
// them.
package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// most is the page size of lists.
const most = 500

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		runCommand(s), listCommand(s), logsCommand(s), outputCommand(s), retryCommand(s), cancelCommand(s), compareCommand(s),
	}
}

// statuses lists the statuses of runs as in the API.
var statuses = []string{"QUEUED", "RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLATION_REQUESTED", "CANCELLED"}

// listing holds the flags of runs.
type listing struct {
	status, flow, deployment, environment, since string
	limit                                        int
}

func listCommand(s *session.Session) *cobra.Command {
	var o listing
	c := &cobra.Command{
		Use:   "runs",
		Short: "List runs, the newest first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query, err := o.query()
			if err != nil {
				return err
			}
			api, err := s.Client()
			if err != nil {
				return err
			}
			items, err := list(c.Context(), api, query, o.limit)
			if err != nil {
				return err
			}
			return printRuns(s.Out(c), items)
		},
	}
	f := c.Flags()
	f.StringVar(&o.status, "status", "", "only runs that are it, such as FAILED")
	f.StringVar(&o.flow, "flow", "", "only runs of this flow")
	f.StringVar(&o.deployment, "deployment", "", "only runs of this deployment")
	f.StringVar(&o.environment, "env", "", "only runs in this environment")
	f.StringVar(&o.since, "since", "", "only runs made since: a duration such as 90m or 1d, or a time in RFC 3339")
	f.IntVar(&o.limit, "limit", 20, "how many at most, up to 500")
	c.AddCommand(getCommand(s), exportCommand(s))
	return c
}

// query returns the API's query for the flags.
func (o *listing) query() (url.Values, error) {
	query := url.Values{}
	status := strings.ToUpper(o.status)
	if status != "" && !slices.Contains(statuses, status) {
		return nil, command.Usagef("--status is one of %s, not %q", strings.Join(statuses, ", "), o.status)
	}
	for name, value := range map[string]string{
		"status": status, "flow_name": o.flow, "deployment": o.deployment, "environment": o.environment,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if o.since != "" {
		from, err := Since(o.since, time.Now())
		if err != nil {
			return nil, command.Usagef("--since: %w", err)
		}
		query.Set("since", from.UTC().Format(time.RFC3339))
	}
	if o.limit < 1 || o.limit > most {
		return nil, command.Usagef("--limit is 1 to %d", most)
	}
	return query, nil
}

// list reads up to limit runs. The server searches a part of the history per request.
func list(ctx context.Context, api *client.Client, query url.Values, limit int) ([]json.RawMessage, error) {
	items := []json.RawMessage{}
	for {
		query.Set("limit", strconv.Itoa(limit-len(items)))
		var page struct {
			Items []json.RawMessage `json:"items"`
			Until string            `json:"next_until"`
		}
		if err := api.Do(ctx, http.MethodGet, "/runs?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		if page.Until == "" || len(items) >= limit {
			return items, nil
		}
		query.Set("until", page.Until)
	}
}

func printRuns(out *output.Printer, items []json.RawMessage) error {
	if out.JSON {
		all, err := json.Marshal(map[string]any{"items": items})
		if err != nil {
			return err
		}
		return out.Value(all)
	}
	rows := make([][]string, len(items))
	for i, item := range items {
		var run client.Run
		if err := json.Unmarshal(item, &run); err != nil {
			return err
		}
		rows[i] = []string{run.Slug, run.FlowName, run.FlowVersion, run.Status, out.Time(run.CreatedAt), took(run), why(run)}
	}
	return out.Table([]string{"RUN", "FLOW", "VERSION", "STATUS", "CREATED", "TOOK", "WHY"}, rows)
}

func took(run client.Run) string {
	if run.StartedAt.IsZero() {
		return ""
	}
	if !run.Ended() {
		return output.Duration(time.Since(run.StartedAt).Milliseconds())
	}
	return output.Duration(run.DurationMS)
}

func why(run client.Run) string {
	if run.ErrorMessage != "" {
		return run.ErrorMessage
	}
	return run.Reason
}

// Since parses a duration before now, such as 1d, or a time in RFC 3339.
func Since(text string, now time.Time) (time.Time, error) {
	if d, err := command.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a duration such as 90m or 7d nor a time in RFC 3339 such as 2026-03-04T00:00:00Z", text)
	}
	return at, nil
}
