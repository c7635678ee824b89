package session

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// ReadSecret reads a value that must not be on a command line: from a prompt without
// echo, or from stdin without the trailing newline. It may be empty.
func ReadSecret(in io.Reader, prompt io.Writer, what string) (string, error) {
	if file, ok := in.(*os.File); ok && isatty.IsTerminal(file.Fd()) {
		fmt.Fprintf(prompt, "%s: ", what)
		value, err := term.ReadPassword(int(file.Fd())) //nolint:gosec // a descriptor fits
		fmt.Fprintln(prompt)
		return string(value), err
	}
	value, err := io.ReadAll(in)
	return strings.TrimSuffix(strings.TrimSuffix(string(value), "\n"), "\r"), err
}
