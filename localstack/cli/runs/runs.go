// Package runs has the commands about runs: to start, watch, read, retry and cancel
// them.
package runs

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// most is how many runs one request lists.
const most = 500

// Commands are all of them.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		runCommand(s), listCommand(s), logsCommand(s), outputCommand(s), retryCommand(s), cancelCommand(s), compareCommand(s),
	}
}

func listCommand(s *session.Session) *cobra.Command {
	var status, flow, environment, since string
	var limit int
	c := &cobra.Command{
		Use:   "runs",
		Short: "List runs, the newest first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"flow_name": flow, "environment": environment} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if since != "" {
				from, err := Since(since, time.Now())
				if err != nil {
					return command.Usagef("--since: %w", err)
				}
				query.Set("since", from.UTC().Format(time.RFC3339))
			}
			if limit < 1 || limit > most {
				return command.Usagef("--limit is 1 to %d", most)
			}
			// Those of one status are chosen here: a server may not know that filter.
			query.Set("limit", strconv.Itoa(limit))
			if status = strings.ToUpper(status); status != "" {
				query.Set("limit", strconv.Itoa(most))
			}
			api, err := s.Client()
			if err != nil {
				return err
			}
			var page struct {
				Items []json.RawMessage `json:"items"`
			}
			if err := api.Do(c.Context(), http.MethodGet, "/runs?"+query.Encode(), nil, &page); err != nil {
				return err
			}
			return printRuns(s.Out(c), page.Items, status, limit)
		},
	}
	f := c.Flags()
	f.StringVar(&status, "status", "", "only runs that are it, such as FAILED; of the newest 500")
	f.StringVar(&flow, "flow", "", "only runs of this flow")
	f.StringVar(&environment, "env", "", "only runs in this environment")
	f.StringVar(&since, "since", "", "only runs made since: a duration such as 90m or 1d, or a time in RFC 3339")
	f.IntVar(&limit, "limit", 20, "how many at most")
	c.AddCommand(getCommand(s))
	return c
}

func printRuns(out *output.Printer, items []json.RawMessage, status string, limit int) error {
	kept := []json.RawMessage{}
	var rows [][]string
	for _, item := range items {
		var run client.Run
		if err := json.Unmarshal(item, &run); err != nil {
			return err
		}
		if status != "" && run.Status != status || len(kept) == limit {
			continue
		}
		kept = append(kept, item)
		rows = append(rows, []string{
			run.Slug, run.FlowName, run.FlowVersion, run.Status, out.Time(run.CreatedAt), took(run), why(run),
		})
	}
	if out.JSON {
		list, err := json.Marshal(map[string]any{"items": kept})
		if err != nil {
			return err
		}
		return out.Value(list)
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

// Since reads how long ago, or a time in RFC 3339.
func Since(text string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 {
			return now.AddDate(0, 0, -n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	return time.Parse(time.RFC3339, text)
}
