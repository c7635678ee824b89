package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// List is the lines that are not run, by reason:
//
//	# What the list is about; lines like this one are comments.
//
//	## A reason, for all lines up to the next
//	shared/run/worker session.walk: return nil, err x3
//
// x3 means that up to three lines of the function with this text are not run.
type List struct {
	head    []string
	reasons []reason
}

type reason struct {
	text    string
	entries []entry
}

type entry struct {
	name  Name
	count int
}

// noReason is the heading of lines added by an update, which still need a
// reason.
const noReason = "No reason yet"

var (
	entryForm = regexp.MustCompile(`^(\S+) (\S+): (.*)$`)
	countForm = regexp.MustCompile(` x(\d+)$`)
)

// ReadList reads a list. A missing file is an empty list.
func ReadList(path string) (*List, error) {
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("read list: %w", err)
	}
	return parseList(string(data))
}

func parseList(text string) (*List, error) {
	l := &List{}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		heading, ok := strings.CutPrefix(line, "## ")
		switch {
		case line == "":
		case ok:
			l.reasons = append(l.reasons, reason{text: heading})
		case strings.HasPrefix(line, "#"):
			l.head = append(l.head, line)
		case len(l.reasons) == 0:
			return nil, fmt.Errorf("list, line %d: a line without a reason", i+1)
		default:
			e := entry{count: 1}
			if at := countForm.FindStringSubmatchIndex(line); at != nil {
				e.count, _ = strconv.Atoi(line[at[2]:at[3]])
				line = line[:at[0]]
			}
			parts := entryForm.FindStringSubmatch(line)
			if parts == nil {
				return nil, fmt.Errorf("list, line %d: not a package, a function and a line: %q", i+1, line)
			}
			e.name = Name{parts[1], parts[2], parts[3]}
			last := &l.reasons[len(l.reasons)-1]
			last.entries = append(last.entries, e)
		}
	}
	return l, nil
}

// String formats the list.
func (l *List) String() string {
	var b strings.Builder
	for _, line := range l.head {
		fmt.Fprintln(&b, line)
	}
	for _, r := range l.reasons {
		fmt.Fprintf(&b, "\n## %s\n", r.text)
		for _, e := range r.entries {
			b.WriteString(e.name.String())
			if e.count > 1 {
				fmt.Fprintf(&b, " x%d", e.count)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// Updated returns the list with exactly the lines that are not run in each of a
// number of test runs. New ones are at the end, without a reason.
func (l *List) Updated(lines []Line, runs int) *List {
	left := map[Name]int{}
	var order []Name
	for _, line := range lines {
		if line.Runs == runs {
			continue
		}
		if left[line.Name]++; left[line.Name] == 1 {
			order = append(order, line.Name)
		}
	}
	out := &List{head: l.head}
	for _, r := range l.reasons {
		kept := reason{text: r.text}
		for _, e := range r.entries {
			if e.count = min(e.count, left[e.name]); e.count > 0 {
				left[e.name] -= e.count
				kept.entries = append(kept.entries, e)
			}
		}
		if len(kept.entries) > 0 {
			out.reasons = append(out.reasons, kept)
		}
	}
	added := reason{text: noReason}
	for _, name := range order {
		if left[name] > 0 {
			added.entries = append(added.entries, entry{name, left[name]})
		}
	}
	if len(added.entries) > 0 {
		out.reasons = append(out.reasons, added)
	}
	return out
}

// Check prints the differences between list and lines: lines that are neither
// run in some test run nor listed, listed ones that are not in the source, and lines without a
// reason. A listed line may be run, because that may depend on chance.
func (l *List) Check(lines []Line, out io.Writer) error {
	listed, unexplained := map[Name]int{}, 0
	for _, r := range l.reasons {
		for _, e := range r.entries {
			listed[e.name] += e.count
			if r.text == noReason {
				unexplained++
				fmt.Fprintf(out, "listed without a reason: %s\n", e.name)
			}
		}
	}
	there, not, wrong := map[Name]int{}, map[Name]int{}, 0
	for _, line := range lines {
		there[line.Name]++
		if line.Runs > 0 {
			continue
		}
		if not[line.Name]++; not[line.Name] > listed[line.Name] {
			wrong++
			fmt.Fprintf(out, "%s:%d is not run and not listed: %s\n", line.File, line.Number, line.Name)
		}
	}
	for _, r := range l.reasons {
		for _, e := range r.entries {
			if there[e.name] < listed[e.name] {
				wrong++
				fmt.Fprintf(out, "listed %d times and there %d times: %s\n", listed[e.name], there[e.name], e.name)
			}
		}
	}
	if wrong+unexplained > 0 {
		return errUnlisted
	}
	total, run := len(lines), 0
	for _, line := range lines {
		if line.Runs > 0 {
			run++
		}
	}
	fmt.Fprintf(out, "%d of %d lines are run, the others are listed\n", run, total)
	return nil
}
