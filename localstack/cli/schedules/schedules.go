// Package schedules has the commands about schedules.
package schedules

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// most is how many schedules are listed.
const most = "1000"

// Commands are all of them.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "schedules",
		Short: "List, set, enable, disable and trigger schedules",
	}, listCommand(s), getCommand(s), setCommand(s),
		enableCommand(s, "enable", "Enable a schedule: its next run is the first from now on", true),
		enableCommand(s, "disable", "Disable a schedule; runs that it started go on", false),
		triggerCommand(s))}
}

// schedule is a schedule as people read it.
type schedule struct {
	ID         string  `json:"schedule_id"`
	Flow       string  `json:"flow_name"`
	Version    *string `json:"flow_version"`
	Deployment *string `json:"deployment"`
	Mode       string  `json:"mode"`
	Seconds    int64   `json:"interval_seconds"`
	Cron       string  `json:"cron_expression"`
	Timezone   string  `json:"timezone"`
	Enabled    bool    `json:"enabled"`
	Next       *int64  `json:"next_run_epoch"`
	LastError  string  `json:"last_error"`
}

// runs is what the schedule runs: a deployment, or a flow's version.
func (x *schedule) runs() string {
	switch {
	case x.Deployment != nil:
		return *x.Deployment
	case x.Version != nil:
		return x.Flow + "@" + *x.Version
	}
	return x.Flow
}

func (x *schedule) timing() string {
	if x.Mode == "interval" {
		return "every " + command.FormatDuration(time.Duration(x.Seconds)*time.Second)
	}
	return x.Cron + " " + x.Timezone
}

// next is the time of the next run, or why there is none.
func (x *schedule) next(out *output.Printer) string {
	switch {
	case !x.Enabled:
		return "disabled"
	case x.Next == nil:
		return "none"
	}
	return out.Time(time.Unix(*x.Next, 0))
}

var columns = output.Columns[schedule]{
	Titles: []string{"SCHEDULE", "RUNS", "TIMING", "NEXT RUN", "LAST ERROR"},
	Cells: func(out *output.Printer, x schedule) []string {
		return []string{x.ID, x.runs(), x.timing(), x.next(out), x.LastError}
	},
}

func path(id string) string { return "/schedules/" + url.PathEscape(id) }

func listCommand(s *session.Session) *cobra.Command {
	var flow string
	var enabled bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List schedules",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{"limit": {most}}
			if flow != "" {
				query.Set("flow_name", flow)
			}
			if c.Flags().Changed("enabled") {
				query.Set("enabled", strconv.FormatBool(enabled))
			}
			return session.List(c, s, "/schedules", query, columns)
		},
	}
	c.Flags().StringVar(&flow, "flow", "", "only those of this flow")
	c.Flags().BoolVar(&enabled, "enabled", true, "only those that are enabled; =false for those that are not")
	return c
}

func getCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "get SCHEDULE",
		Short: "Show a schedule",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Get(c, s, path(args[0]), columns.PrintOne)
		},
	}
}

func enableCommand(s *session.Session, verb, short string, enabled bool) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " SCHEDULE",
		Short: short,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Change(c, s, http.MethodPatch, path(args[0]), map[string]any{"enabled": enabled}, tell)
		},
	}
}

// tell says what a schedule is after a change.
func tell(out *output.Printer, x schedule) {
	out.Printf("%s: %s, %s, next run: %s\n", x.ID, x.runs(), x.timing(), x.next(out))
}
