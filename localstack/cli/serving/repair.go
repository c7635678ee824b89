package serving

import (
	"fmt"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/datadir"
	"millrace/localstack/embedded/store"
)

func repairCommand() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "repair",
		Short: "Truncate the damaged part of a database log; no server may be running on it",
		Long: "A server refuses to start on a database in which something is missing that was acknowledged. If that is\n" +
			"in a log, repair makes the database what it was before the damage: what was written after it is given up,\n" +
			"and kept in DIR/store/aside. Restore a backup instead if there is one. Any other damage only a backup mends.",
		Args: command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := datadir.Check(data); err != nil {
				return err
			}
			damage, err := store.Repair(datadir.Store(data), nil)
			if err != nil {
				return fmt.Errorf("repair: %w", err)
			}
			out := c.OutOrStdout()
			if damage == nil {
				fmt.Fprintln(out, "nothing to repair")
				return nil
			}
			fmt.Fprintf(out, "%s %s: what was written after it is given up\n", damage.File, damage.What)
			for _, name := range damage.Aside {
				fmt.Fprintf(out, "kept aside: %s\n", name)
			}
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "data directory")
	return c
}
