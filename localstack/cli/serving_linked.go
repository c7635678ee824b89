//go:build !bundle

package cli

import (
	"github.com/spf13/cobra"

	"millrace/localstack/cli/serving"
)

// servingCommands returns the commands that need the server's libraries.
func servingCommands(version string) []*cobra.Command { return serving.Commands(version) }

// become does nothing: this is the full program.
func become([]string) error { return nil }
