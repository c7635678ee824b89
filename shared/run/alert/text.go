package alert

import (
	"strconv"
	"strings"
	"unicode"
)

// title tells in one line what happened: the flow and the status.
func (m *Message) title() string {
	status := m.about().status
	if status == "" {
		status = m.Run.Status
	}
	if m.Resolved {
		status = "RESOLVED"
	}
	title := m.Run.FlowName + " " + status
	if m.Test {
		title = "[TEST] " + title
	}
	return oneLine(title, maxTitle)
}

// maxTitle and maxError are the lengths of a title and an error in a message for
// people, in bytes.
const (
	maxTitle = 300
	maxError = 1000
)

// fact is a line of a message for people.
type fact struct{ name, text string }

// facts are the lines of a message for people, without the title.
func (m *Message) facts() []fact {
	out := []fact{
		{"Flow", m.Run.FlowName + " " + m.Run.FlowVersion},
		{"Status", m.Run.Status},
		{"Run", m.Run.RunSlug + " (" + m.Run.RunID + ")"},
		{"Environment", m.Run.Environment},
	}
	add := func(name string, text *string) {
		if text != nil && *text != "" {
			out = append(out, fact{name, oneLine(*text, maxError)})
		}
	}
	if m.Rule.SLASeconds != nil {
		out = append(out, fact{"SLA", strconv.FormatInt(*m.Rule.SLASeconds, 10) + " s"})
	}
	if t := m.Task; t != nil {
		out = append(out, fact{"Task", t.title()})
		add("Task error", &t.ErrorMessage)
	}
	add("Error", m.Run.ErrorMessage)
	add("Started", m.Run.StartedAt)
	add("Ended", m.Run.EndedAt)
	out = append(out, fact{"Alert rule", oneLine(m.Rule.Name, maxTitle)})
	return out
}

// oneLine returns a text with white space and control characters as single
// spaces, cut to a number of bytes.
func oneLine(text string, most int) string {
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\ufffd"), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// title names the attempt: load[3], attempt 2.
func (t *Task) title() string {
	name := t.TaskName
	if t.MapIndex != nil {
		name += "[" + strconv.Itoa(*t.MapIndex) + "]"
	}
	return name + ", attempt " + strconv.Itoa(t.Attempt)
}
