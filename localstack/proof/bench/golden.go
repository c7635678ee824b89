package bench

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

//go:embed testdata/budget.golden
var golden string

// Golden returns the golden counts.
func Golden() ([]Count, error) { return parse(golden) }

// columns are the numbers in a line of the golden file, in order.
var columns = []struct {
	name  string
	value func(*Count) any
}{
	{"tasks", func(c *Count) any { return &c.Tasks }},
	{"write units", func(c *Count) any { return &c.Write }},
	{"read units", func(c *Count) any { return &c.Read }},
	{"table requests", func(c *Count) any { return &c.Calls }},
	{"queue requests", func(c *Count) any { return &c.Requests }},
	{"sends", func(c *Count) any { return &c.Sends }},
	{"batches", func(c *Count) any { return &c.Batches }},
	{"messages", func(c *Count) any { return &c.Messages }},
	{"puts", func(c *Count) any { return &c.Puts }},
	{"gets", func(c *Count) any { return &c.Gets }},
	{"events", func(c *Count) any { return &c.Events }},
	{"sandboxes", func(c *Count) any { return &c.Sandboxes }},
	{"posts", func(c *Count) any { return &c.Posts }},
	{"log KB", func(c *Count) any { return &c.LogKB }},
}

// Format formats counts for the golden file.
func Format(counts []Count) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-38s", "#")
	for _, col := range columns {
		fmt.Fprintf(&b, "  %s", col.name)
	}
	b.WriteByte('\n')
	for _, c := range counts {
		fmt.Fprintf(&b, "%-38s", c.Work)
		for _, col := range columns {
			fmt.Fprintf(&b, "  %*s", len(col.name), number(col.value(&c)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func number(v any) string {
	switch v := v.(type) {
	case *int:
		return strconv.Itoa(*v)
	case *float64:
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	panic(fmt.Sprintf("bench: no number: %T", v))
}

// parse parses the output of Format.
func parse(text string) ([]Count, error) {
	var out []Count
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) <= len(columns) {
			return nil, fmt.Errorf("golden file: %q is not one of its lines", line)
		}
		name := len(fields) - len(columns)
		c := Count{Work: strings.Join(fields[:name], " ")}
		for i, col := range columns {
			var err error
			switch v := col.value(&c).(type) {
			case *int:
				*v, err = strconv.Atoi(fields[name+i])
			case *float64:
				*v, err = strconv.ParseFloat(fields[name+i], 64)
			}
			if err != nil {
				return nil, fmt.Errorf("golden file: %q: %w", line, err)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// Compare returns what rose and what fell compared with the golden counts. A
// work that is only on one side is neither.
func Compare(want, got []Count) (rose, fell []string) {
	for _, g := range got {
		w, found := find(want, g.Work)
		if !found {
			continue
		}
		for _, col := range columns {
			before, after := float(col.value(&w)), float(col.value(&g))
			text := fmt.Sprintf("%s: %s %g, was %g", g.Work, col.name, after, before)
			switch {
			case after > before:
				rose = append(rose, text)
			case after < before:
				fell = append(fell, text)
			}
		}
	}
	return rose, fell
}

func float(v any) float64 {
	if n, ok := v.(*int); ok {
		return float64(*n)
	}
	return *v.(*float64)
}

func find(counts []Count, work string) (Count, bool) {
	i := slices.IndexFunc(counts, func(c Count) bool { return c.Work == work })
	if i < 0 {
		return Count{}, false
	}
	return counts[i], true
}
