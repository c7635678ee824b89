//go:build bundle

package bundle

import (
	_ "embed" // the whole program
	"strings"
)

// The whole program and its build ID, as `make build` writes them.
var (
	//go:embed program
	program string
	//go:embed program.id
	programID string
)

// Carried is the whole program. Its build ID is made of hashes of its content, with
// slashes between them.
func Carried() Program {
	return Program{Name: "millrace", ID: strings.ReplaceAll(strings.TrimSpace(programID), "/", "."), Content: program}
}
