package demo

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"millrace/localstack/client"
)

// progress shows the progress of a run: in a terminal as a table that is
// redrawn, otherwise as one line for each change of a task.
type progress struct {
	out   io.Writer
	live  bool
	drawn int               // lines of the table on the screen
	last  map[string]string // states shown, by task and instance
}

// show shows the next state of the run.
func (p *progress) show(run client.Run) {
	if p.live {
		p.draw(run)
		return
	}
	if p.last == nil {
		p.last = map[string]string{}
	}
	for _, t := range run.TaskRuns {
		key := t.TaskRunID
		if p.last[key] == t.Status || t.Status == "PENDING" || t.MapIndex != nil {
			continue
		}
		p.last[key] = t.Status
		fmt.Fprintf(p.out, "   %-12s %s\n", t.TaskName, state(t))
	}
}

// end shows the final state of the run.
func (p *progress) end(run client.Run) {
	if !p.live {
		fmt.Fprintln(p.out)
	}
	p.draw(run)
	fmt.Fprintf(p.out, "   run %s (%s): %s in %d ms\n", run.Slug, run.RunID, run.Status, run.DurationMS)
}

func (p *progress) draw(run client.Run) {
	var b strings.Builder
	if p.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", p.drawn)
	}
	rows := rows(run)
	for _, r := range rows {
		b.WriteString(r + "\n")
	}
	p.drawn = len(rows)
	_, _ = io.WriteString(p.out, b.String())
}

// rows returns the lines of the table: heading and tasks, with all instances of
// a map on one line.
func rows(run client.Run) []string {
	out := []string{fmt.Sprintf("   %-12s %7s  %-16s %9s  %s", "task", "attempt", "status", "ms", "")}
	for i := 0; i < len(run.TaskRuns); i++ {
		t := run.TaskRuns[i]
		if t.MapIndex == nil {
			out = append(out, fmt.Sprintf("   %-12s %7d  %-16s %9s  %s", t.TaskName, t.Attempt, t.Status, millis(t), clip(t.ErrorMessage, 60)))
			continue
		}
		instances, ended, total := 0, 0, int64(0)
		for ; i < len(run.TaskRuns) && run.TaskRuns[i].TaskName == t.TaskName; i++ {
			instances++
			if ms := run.TaskRuns[i].DurationMS; ms != nil {
				total += *ms
			}
			if run.TaskRuns[i].Status == "SUCCEEDED" {
				ended++
			}
		}
		i--
		out = append(out, fmt.Sprintf("   %-12s %7s  %-16s %9d  %d of %d instances", t.TaskName, "", "mapped", total, ended, instances))
	}
	return out
}

func state(t client.TaskRun) string {
	text := t.Status
	if t.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", t.Attempt)
	}
	if t.ErrorMessage != "" {
		text += ": " + clip(t.ErrorMessage, 70)
	}
	return text
}

func millis(t client.TaskRun) string {
	if t.DurationMS == nil {
		return ""
	}
	return fmt.Sprint(*t.DurationMS)
}

// clip shortens a text to one line of at most n characters.
func clip(s string, n int) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
