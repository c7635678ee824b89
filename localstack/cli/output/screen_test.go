package output

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestControlCharactersAreShown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, colored, plain string }{
		"text":                     {"größer\t1\n", "größer\t1\n", "größer\t1\n"},
		"title of the window":      {"a\x1b]0;owned\x07b", `a\u001b]0;owned\u0007b`, `a\u001b]0;owned\u0007b`},
		"clear screen":             {"\x1b[2J\x1b[H", `\u001b[2J\u001b[H`, `\u001b[2J\u001b[H`},
		"lone and at the end":      {"\x1b a \x1b", `\u001b a \u001b`, `\u001b a \u001b`},
		"unfinished colour":        {"\x1b[31", `\u001b[31`, `\u001b[31`},
		"query in form of colour":  {"\x1b[?1m\x1b[>4;2m", `\u001b[?1m\u001b[>4;2m`, `\u001b[?1m\u001b[>4;2m`},
		"8-bit control sequence":   {"\u009b2J\u0085", `\u009b2J\u0085`, `\u009b2J\u0085`},
		"byte of such":             {"\x9b2J", `\x9b2J`, `\x9b2J`},
		"overwritten line":         {"real\rfalse\b", `real\u000dfalse\u0008`, `real\u000dfalse\u0008`},
		"line end of Windows":      {"a\r\nb\r", "a\nb\\u000d", "a\nb\\u000d"},
		"delete and null":          {"\x7f\x00", `\u007f\u0000`, `\u007f\u0000`},
		"replacement character":    {"\ufffd\x07", "\ufffd\\u0007", "\ufffd\\u0007"},
		"colour":                   {"\x1b[1;38:5:8mred\x1b[0m.", "\x1b[1;38:5:8mred\x1b[0m.", "red."},
		"colour that does not end": {"\x1b[31ma\nb", "\x1b[31ma\x1b[0m\nb", "a\nb"},
		"colour to the end":        {"a\x1b[8m", "a\x1b[8m\x1b[0m", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.colored, shown(c.text, true))
			assert.Equal(t, c.plain, shown(c.text, false))
		})
	}
}

func TestScreenOfPrinter(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	screen := &Screen{to: &b, color: true}
	p := &Printer{Terminal: true, screen: screen, width: 40, out: screen}
	require.NoError(t, p.Table([]string{"TASK", "STATUS", "WHY"}, [][]string{{"\x1b[31ma", "FAILED", "\x1b]0;x\x07"}}))
	assert.Equal(t, "TASK  STATUS  WHY\na     \x1b[31mFAILED\x1b[0m  \\u001b]0;x\\u0007\n", b.String(), "sequences have no width")
	b.Reset()
	p.Printf("%s\n", "\x1b[2J")
	p.Replace("\x1b[2J")
	p.Erase(2)
	p.Erase(0)
	assert.Equal(t, "\\u001b[2J\n\r\x1b[K\\u001b[2J\x1b[2A\x1b[J", b.String(), "commands move the cursor, text does not")

	b.Reset()
	piped := New(&b, false)
	require.NoError(t, piped.Table([]string{"WHY"}, [][]string{{"\x1b[2J"}}))
	piped.Replace("\x1b[31m")
	piped.Erase(2)
	assert.Equal(t, "WHY\n\x1b[2J\n\x1b[31m", b.String(), "programs get what there is")
}

func TestFileIsNoScreen(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer file.Close()
	assert.Same(t, file, Guard(file))
	assert.Same(t, file, Direct(file))
	assert.Same(t, file, Direct(&Screen{to: file, file: file}))
	assert.Same(t, file, New(&Screen{to: file, file: file}, false).Direct())
}
