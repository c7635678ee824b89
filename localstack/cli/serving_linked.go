//go:build !bundle

package cli

import (
	"github.com/spf13/cobra"

	"millrace/localstack/cli/serving"
)

// servingCommands are those that need the libraries of the server.
func servingCommands(version string) []*cobra.Command { return serving.Commands(version) }

// become does nothing: this is the whole program.
func become([]string) error { return nil }
