// Package output prints the results of commands: tables for people, JSON for programs.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"
)

// Printer prints the output of one command.
type Printer struct {
	JSON     bool // print the API's JSON
	Terminal bool // out is a terminal
	out      io.Writer
	screen   *Screen // out, if it is a terminal
	width    int
}

// New returns a Printer that writes to out, JSON if asJSON. If out is a [Screen],
// tables fit its width and statuses have colours, unless NO_COLOR is set.
func New(out io.Writer, asJSON bool) *Printer {
	p := &Printer{JSON: asJSON, out: out}
	screen, ok := out.(*Screen)
	if !ok {
		return p
	}
	p.Terminal, p.screen = true, screen
	if width, _, err := term.GetSize(int(screen.file.Fd())); err == nil { //nolint:gosec // a descriptor fits
		p.width = width
	}
	return p
}

// Printf prints formatted text.
func (p *Printer) Printf(format string, args ...any) { fmt.Fprintf(p.out, format, args...) }

// Erase removes the last lines of a terminal, to draw them anew.
func (p *Printer) Erase(lines int) {
	if p.screen != nil && lines > 0 {
		p.screen.control(fmt.Sprintf("\x1b[%dA\x1b[J", lines))
	}
}

// Replace replaces the line that a terminal's cursor is on.
func (p *Printer) Replace(text string) {
	if p.screen != nil {
		p.screen.control("\r\x1b[K")
	}
	p.Printf("%s", text)
}

// Direct returns the writer for the output of programs that the user starts on this
// machine, see [Direct].
func (p *Printer) Direct() io.Writer { return Direct(p.out) }

// Raw prints bytes, unchanged unless out is a terminal.
func (p *Printer) Raw(data []byte) error {
	_, err := p.out.Write(data)
	return err
}

// Value prints JSON, indented unless the output is JSON.
func (p *Printer) Value(data json.RawMessage) error {
	var b bytes.Buffer
	if p.Terminal {
		if err := json.Indent(&b, data, "", "  "); err != nil {
			return err
		}
	} else if err := json.Compact(&b, data); err != nil {
		return err
	}
	b.WriteByte('\n')
	return p.Raw(b.Bytes())
}

// Line prints a value as one line of JSON, for streams.
func (p *Printer) Line(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return p.Raw(b.Bytes())
}

// Table prints rows below a line of titles. Columns are as wide as their content; on
// a terminal the last one is cut to its width, and statuses have colours.
func (p *Printer) Table(titles []string, rows [][]string) error {
	widths := make([]int, len(titles))
	all := [][]string{titles}
	for _, row := range rows {
		row = slices.Clone(row)
		for i := range row {
			if p.Terminal { // before it is measured
				row[i] = shown(row[i], false)
			}
		}
		all = append(all, row)
	}
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range all {
		used := 0
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(p.Colored(p.cut(cell, used)))
				continue
			}
			b.WriteString(p.Colored(cell))
			b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			used += widths[i] + 2
		}
		b.WriteByte('\n')
	}
	return p.Raw([]byte(b.String()))
}

// cut shortens the last cell of a line to the width that is left.
func (p *Printer) cut(cell string, used int) string {
	cell, _, _ = strings.Cut(cell, "\n")
	room := max(p.width-used, 10)
	if p.width == 0 || utf8.RuneCountInString(cell) <= room {
		return cell
	}
	return string([]rune(cell)[:room-1]) + "…"
}

// colors maps statuses to escape sequences.
var colors = map[string]string{
	"SUCCEEDED": "32", "REUSED": "32", "FAILED": "31", "TIMED_OUT": "31", "UPSTREAM_FAILED": "31",
	"RUNNING": "34", "RETRYING": "33", "CANCELLED": "33", "error": "31", "warning": "33",
}

// Colored returns a status in its colour if out is a terminal, and any other text
// unchanged.
func (p *Printer) Colored(text string) string {
	if code := colors[text]; p.screen != nil && p.screen.color && code != "" {
		return "\x1b[" + code + "m" + text + endOfStyle
	}
	return text
}

// Time formats a time: local time on a terminal, RFC 3339 in UTC elsewhere.
func (p *Printer) Time(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case p.Terminal:
		return t.Local().Format("2006-01-02 15:04:05")
	}
	return t.UTC().Format(time.RFC3339)
}

// Duration formats a number of milliseconds.
func Duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", ms)
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}
