package runs

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// watchEvery is the poll interval of a watched run.
const watchEvery = 250 * time.Millisecond

// outcome maps the final status of a run to an exit code.
var outcome = map[string]int{
	"SUCCEEDED": command.Done, "FAILED": command.Failure, "TIMED_OUT": command.TimedOut, "CANCELLED": command.Cancelled,
}

// watch shows a run until it has ended; its outcome determines the exit code. A server
// that restarts meanwhile is waited for. An interrupt stops watching, not the run.
func watch(c *cobra.Command, s *session.Session, api *client.Client, id string) error {
	out := s.Out(c)
	progress := &progress{out: out, seen: map[string]string{}}
	api.Patience = session.Patience(c, session.WatchPatience, func() { progress.lines = 0 })
	run, err := api.Watch(c.Context(), id, watchEvery, progress.show)
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "the run goes on: millrace logs -f %s, millrace cancel %s\n", id, id)
		if c.Context().Err() != nil {
			return command.Exit(command.Interrupted)
		}
		return err
	}
	if !out.JSON {
		end(out, run)
	}
	return command.Exit(outcome[run.Status])
}

// progress shows the tasks of a run as they change: a table that is drawn over on a
// terminal, a line for each change elsewhere.
type progress struct {
	out   *output.Printer
	seen  map[string]string // status by attempt
	lines int               // of the table on the terminal
}

func (p *progress) show(run client.Run) {
	switch {
	case p.out.JSON:
		p.changes(run, func(t client.TaskRun) { _ = p.out.Line(t) })
	case p.out.Terminal:
		p.draw(run)
	default:
		p.changes(run, func(t client.TaskRun) { p.out.Printf("%s\n", strings.TrimRight(line(t), " ")) })
	}
}

// changes calls changed with each attempt whose status has changed.
func (p *progress) changes(run client.Run, changed func(client.TaskRun)) {
	for _, t := range run.TaskRuns {
		key := fmt.Sprint(label(t), " ", t.Attempt)
		if p.seen[key] != t.Status {
			p.seen[key] = t.Status
			changed(t)
		}
	}
}

func line(t client.TaskRun) string {
	text := fmt.Sprintf("%-24s %-10s", label(t), t.Status)
	if t.DurationMS != nil {
		text += " " + output.Duration(*t.DurationMS)
	}
	if t.Attempt > 1 {
		text += fmt.Sprintf(" attempt %d", t.Attempt)
	}
	if why := reason(t); why != "" {
		first, _, _ := strings.Cut(why, "\n")
		text += " " + first
	}
	return text
}

// draw draws a line for each task over the previous lines; the line of a mapped task
// has the number of its instances by status.
func (p *progress) draw(run client.Run) {
	p.out.Erase(p.lines)
	p.lines = 0
	for _, row := range summaries(run) {
		p.out.Printf("%-24s %s %s\n", row.name, p.out.Colored(row.status), row.detail)
		p.lines++
	}
}

type summary struct{ name, status, detail string }

func summaries(run client.Run) (rows []summary) {
	var names []string
	newest := map[string]map[string]client.TaskRun{} // by task, then by label
	for _, t := range run.TaskRuns {
		if newest[t.TaskName] == nil {
			newest[t.TaskName] = map[string]client.TaskRun{}
			names = append(names, t.TaskName)
		}
		newest[t.TaskName][label(t)] = t
	}
	for _, name := range names {
		if t, single := newest[name][name]; single && len(newest[name]) == 1 {
			_, rest, _ := strings.Cut(strings.TrimLeft(line(t)[len(name):], " "), " ")
			rows = append(rows, summary{name, t.Status, strings.TrimSpace(rest)})
			continue
		}
		done, status := 0, "REUSED" // if all its instances are
		for _, t := range newest[name] {
			switch t.Status {
			case "REUSED":
				done++
			case "SUCCEEDED":
				done++
				if status == "REUSED" {
					status = "SUCCEEDED"
				}
			default:
				status = worse(status, t.Status)
			}
		}
		rows = append(rows, summary{name, status, fmt.Sprintf("%d of %d", done, len(newest[name]))})
	}
	return rows
}

// worse returns the status that describes a mapped task with instances of both.
func worse(a, b string) string {
	for _, s := range []string{"FAILED", "TIMED_OUT", "RETRYING", "RUNNING", "QUEUED", "PENDING"} {
		if a == s || b == s {
			return s
		}
	}
	return b
}

// end prints the outcome and the next command.
func end(out *output.Printer, run client.Run) {
	out.Printf("%s in %s  %s\n", out.Colored(run.Status), output.Duration(run.DurationMS), run.Slug)
	if run.Status == "SUCCEEDED" {
		return
	}
	if run.ErrorMessage != "" {
		out.Printf("%s\n", run.ErrorMessage)
	}
	out.Printf("millrace logs %s   |   millrace retry %s --failed -w   (--latest: with the code deployed since)\n", run.Slug, run.Slug)
}
