package serving

import (
	"fmt"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/demo"
)

func demoCommand() *cobra.Command {
	var o demo.Options
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the service at work: start a server, upload the example flows, run them, retry one",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			binary, err := command.Program()
			if err != nil {
				return err
			}
			o.Binary, o.Out, o.Live = binary, output.Direct(c.OutOrStdout()), isatty.IsTerminal(os.Stdout.Fd())
			if err := demo.Run(c.Context(), o); err != nil {
				return fmt.Errorf("demo: %w", err)
			}
			return nil
		},
	}
	c.Flags().StringVar(&o.Dir, "data", "", "data directory to keep, not used before (default: a temporary one)")
	c.Flags().StringVar(&o.Credentials, "credentials", "", "credentials.json of a server that runs with --allow-loopback, to use in place of one of its own")
	c.Flags().StringVar(&o.Python, "python", "", "interpreter of Python tasks (default: python3 on PATH)")
	c.MarkFlagsMutuallyExclusive("data", "credentials")
	return c
}
