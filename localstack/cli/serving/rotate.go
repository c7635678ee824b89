package serving

import (
	"fmt"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/server"
)

func rotateKeysCommand(version string) *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "rotate-keys",
		Short: "Make new keys that sign list cursors and seal secret values; no server may be running",
		Long: "Makes new keys of a data directory, which the next server signs the cursors of lists and seals the values\n" +
			"of secrets with. Values that were sealed before stay readable, and cursors valid until the next rotation.",
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := server.RotateKeys(data, version); err != nil {
				return fmt.Errorf("rotate-keys: %w", err)
			}
			fmt.Fprintln(c.OutOrStdout(), "new keys are in use from the next start on")
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "data directory")
	return c
}
