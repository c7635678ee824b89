//go:build bundle

package bundle

import (
	_ "embed" // the full program
	"strings"
)

// The full program and its build ID, written by `make build`.
var (
	//go:embed program
	program string
	//go:embed program.id
	programID string
)

// Carried returns the embedded program. Its build ID consists of hashes of its
// content, separated by slashes.
func Carried() Program {
	return Program{Name: "millrace", ID: strings.ReplaceAll(strings.TrimSpace(programID), "/", "."), Content: program}
}
