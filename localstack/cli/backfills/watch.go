package backfills

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// watchEvery is the poll interval of a watched backfill.
const watchEvery = time.Second

// barWidth is the number of characters of a progress bar.
const barWidth = 20

var titles = []string{"INTERVAL", "LOGICAL TIME", "STATUS", "RUN", "REASON"}

// progress is one line about how far a backfill is.
func (b *backfill) progress() string {
	count := map[string]int{}
	for _, one := range b.Intervals {
		count[one.Status]++
	}
	ended := b.Total - count["PENDING"] - count["DISPATCHED"]
	bar := strings.Repeat("#", ended*barWidth/max(b.Total, 1))
	text := fmt.Sprintf("%s  %s  %s  [%-*s] %d of %d", b.ID, b.FlowName, b.Status, barWidth, bar, ended, b.Total)
	for _, part := range []struct {
		n    int
		what string
	}{{count["DISPATCHED"], "running"}, {b.Failed, "failed"}, {count["CANCELLED"], "cancelled"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	return text
}

// unfinished reports whether an interval may still change.
func (b *backfill) unfinished() bool {
	for _, one := range b.Intervals {
		if one.Status == "PENDING" || one.Status == "DISPATCHED" {
			return true
		}
	}
	return b.Status == "RUNNING"
}

func read(c *cobra.Command, api *client.Client, id string) (answer json.RawMessage, b backfill, err error) {
	if err = api.Do(c.Context(), http.MethodGet, path(id, ""), nil, &answer); err == nil {
		err = json.Unmarshal(answer, &b)
	}
	return answer, b, err
}

// show prints a backfill as it is now.
func (b *backfill) show(out *output.Printer, all bool) error {
	out.Printf("%s\n", b.progress())
	if rows := b.rows(out, all); len(rows) > 0 {
		if err := out.Table(titles, rows); err != nil {
			return err
		}
	}
	b.explain(out)
	return nil
}

// mostReasons is the number of different reasons that are shown.
const mostReasons = 5

// explain prints in full why intervals have failed: the intervals of a backfill mostly
// fail for the same reason, and a terminal has little room for it in the table.
func (b *backfill) explain(out *output.Printer) {
	var reasons []string
	intervals := map[string]int{}
	for _, one := range b.Intervals {
		if one.Reason == nil {
			continue
		}
		if intervals[*one.Reason]++; intervals[*one.Reason] == 1 {
			reasons = append(reasons, *one.Reason)
		}
	}
	for i, reason := range reasons {
		if i == mostReasons {
			out.Printf("and %d other reasons\n", len(reasons)-i)
			return
		}
		out.Printf("%d failed: %s\n", intervals[reason], reason)
	}
}

// watch shows the progress of a backfill until its intervals are finished. The
// exit code tells whether all have succeeded. A server that has answered once is waited
// for when it restarts. An interrupt stops watching only.
func watch(c *cobra.Command, s *session.Session, api *client.Client, id string) error {
	out := s.Out(c)
	for last := ""; ; {
		answer, b, err := read(c, api, id)
		if err != nil && (last != "" || c.Context().Err() != nil) {
			fmt.Fprintf(c.ErrOrStderr(), "the backfill goes on: millrace backfill get -w %s, millrace backfill cancel %s\n", id, id)
		}
		if c.Context().Err() != nil {
			return command.Exit(command.Interrupted)
		}
		if err != nil {
			return err
		}
		api.Patience = session.Patience(c, session.WatchPatience, func() {
			if out.Terminal && !out.JSON {
				out.Printf("\n")
			}
		})
		line := b.progress()
		switch {
		case out.JSON:
		case out.Terminal:
			out.Replace(line)
		case line != last:
			out.Printf("%s\n", line)
		}
		if last = line; !b.unfinished() {
			if out.JSON {
				err = out.Value(answer)
			} else {
				if out.Terminal {
					out.Printf("\n")
				}
				b.explain(out)
			}
			if err == nil && b.Completed < b.Total {
				err = command.Exit(command.Failure)
			}
			return err
		}
		select {
		case <-c.Context().Done():
		case <-time.After(watchEvery):
		}
	}
}
