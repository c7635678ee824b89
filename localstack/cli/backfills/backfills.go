// Package backfills has the commands about backfills, which run a flow once for
// each occurrence in a window of time.
package backfills

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

// Commands are all of them.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "backfill",
		Short: "Run a flow for each occurrence in a window of time; list, show and cancel backfills",
	}, createCommand(s), listCommand(s), getCommand(s), cancelCommand(s))}
}

// backfill is a backfill as people read it.
type backfill struct {
	ID             string     `json:"backfill_id"`
	FlowName       string     `json:"flow_name"`
	Status         string     `json:"status"`
	Total          int        `json:"total"`
	Dispatched     int        `json:"dispatched"`
	Completed      int        `json:"completed"`
	Failed         int        `json:"failed"`
	MaxConcurrency int        `json:"max_concurrency"`
	From           int64      `json:"from_epoch"`
	To             int64      `json:"to_epoch"`
	Created        time.Time  `json:"created_at"`
	Intervals      []interval `json:"intervals"`
}

type interval struct {
	Index     int       `json:"index"`
	LogicalAt time.Time `json:"logical_at"`
	RunID     *string   `json:"run_id"`
	Status    string    `json:"status"`
	Reason    *string   `json:"reason"`
}

// path is that of a backfill and what is below it.
func path(id, below string) string { return "/backfills/" + url.PathEscape(id) + below }

var columns = output.Columns[backfill]{
	Titles: []string{"BACKFILL", "FLOW", "STATUS", "TOTAL", "SUCCEEDED", "FAILED", "FROM", "TO", "CREATED"},
	Cells: func(out *output.Printer, b backfill) []string {
		return []string{
			b.ID, b.FlowName, b.Status, strconv.Itoa(b.Total), strconv.Itoa(b.Completed), strconv.Itoa(b.Failed),
			out.Time(time.Unix(b.From, 0)), out.Time(time.Unix(b.To, 0)), out.Time(b.Created),
		}
	},
}

const mostOnPage = 500

func listCommand(s *session.Session) *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use:   "list",
		Short: "List backfills, the newest first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.First(c, s, "/backfills", nil, limit, mostOnPage, columns)
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, "how many")
	return c
}

func getCommand(s *session.Session) *cobra.Command {
	var all, watching bool
	c := &cobra.Command{
		Use:   "get BACKFILL",
		Short: "Show how far a backfill is, and its intervals that run or have failed",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if watching {
				api, err := s.Client()
				if err != nil {
					return err
				}
				return watch(c, s, api, args[0])
			}
			return session.Get(c, s, path(args[0], ""), func(out *output.Printer, b backfill) error { return b.show(out, all) })
		},
	}
	c.Flags().BoolVar(&all, "all", false, "show all intervals")
	c.Flags().BoolVarP(&watching, "watch", "w", false, "show its progress until all intervals are finished, and exit by the outcome")
	return c
}

func cancelCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel BACKFILL",
		Short: "Cancel the intervals of a backfill that have no run yet",
		Long:  "Cancels the intervals that have no run yet. Runs that were started go on; millrace cancel stops one.",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Change(c, s, http.MethodPost, path(args[0], "/cancel"), nil, func(out *output.Printer, b backfill) {
				out.Printf("%s\n", b.progress())
			})
		},
	}
}

// rows returns rows for the intervals that run or have failed, or for all.
func (b *backfill) rows(out *output.Printer, all bool) (rows [][]string) {
	for _, one := range b.Intervals {
		if !all && one.Status != "DISPATCHED" && one.Status != "FAILED" {
			continue
		}
		row := []string{strconv.Itoa(one.Index), out.Time(one.LogicalAt), one.Status, "", ""}
		if one.RunID != nil {
			row[3] = *one.RunID
		}
		if one.Reason != nil {
			row[4] = *one.Reason
		}
		rows = append(rows, row)
	}
	return rows
}
