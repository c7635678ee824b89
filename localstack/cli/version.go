package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
)

func versionCommand(version string) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), version)
			return err
		},
	}
}

// serviceVersion returns the release, or else the commit that the binary was built
// from.
func serviceVersion(release string) string {
	if release != "" {
		return release
	}
	commit, dirty := "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && len(s.Value) >= 12:
				commit = s.Value[:12]
			case s.Key == "vcs.modified" && s.Value == "true":
				dirty = "-dirty"
			}
		}
	}
	if commit == "" {
		return "dev"
	}
	return "dev-" + commit + dirty
}
