package output

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// Screen is a terminal that shows text of others, such as the logs of tasks, without
// being controlled by it: control characters are shown as JSON escapes them, \u001b.
// So a reader sees all that a task has written, and the API's JSON stays valid. Colours
// are kept, each to the end of its line.
type Screen struct {
	to    io.Writer
	file  *os.File // of to
	color bool
}

// Guard returns a [Screen] if a file is a terminal, and otherwise the file, to which
// everything is written unchanged.
func Guard(file *os.File) io.Writer {
	if !isatty.IsTerminal(file.Fd()) { //guard:cli/screen true
		return file
	}
	return &Screen{to: file, file: file, color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

// Direct returns the file of a [Screen], and any other writer as it is: for programs
// that the user starts on this machine, which have the terminal anyway.
func Direct(w io.Writer) io.Writer {
	if s, ok := w.(*Screen); ok {
		return s.file
	}
	return w
}

// Write writes text that may be of others.
func (s *Screen) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.to, shown(string(text), s.color)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// control writes control sequences of the command's own.
func (s *Screen) control(sequence string) { _, _ = io.WriteString(s.to, sequence) } // errors are ignored as in Printf

// style matches a sequence that sets colours or other attributes of text (SGR).
var style = regexp.MustCompile(`^\x1b\[[0-9;:]*m`)

const endOfStyle = "\x1b[0m"

// shown returns text as a terminal shows it. Sequences of colours are removed if color
// is false, and end with the line or the text if it is true.
func shown(text string, color bool) string {
	if !strings.ContainsFunc(text, controls) { // as most
		return text
	}
	var b strings.Builder
	styled := false
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		sequence := style.FindString(text)
		switch {
		case sequence != "":
			size = len(sequence)
			if color {
				b.WriteString(sequence)
				styled = sequence != endOfStyle
			}
		case r == '\r' && strings.HasPrefix(text[size:], "\n"): // the newline follows
		case r == '\n':
			if styled {
				b.WriteString(endOfStyle)
			}
			b.WriteByte('\n')
			styled = false
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r != utf8.RuneError && controls(r): //guard:cli/control-characters false
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	if styled {
		b.WriteString(endOfStyle)
	}
	return b.String()
}

// controls reports whether a terminal may do something other with a character than
// show it. Invalid UTF-8 may have the control characters of 8-bit terminals.
func controls(r rune) bool {
	return unicode.IsControl(r) && r != '\n' && r != '\t' || r == utf8.RuneError
}
