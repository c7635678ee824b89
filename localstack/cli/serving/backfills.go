package serving

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/server"
)

func backfillsCommand() *cobra.Command {
	var data, org string
	c := &cobra.Command{
		Use:   "switch-backfills --org ORG_ID on|off",
		Short: "Switch the backfills of a workspace on or off",
		Long: "Asks the running server to answer 503 to the operations of backfills in a workspace, and to start no runs of\n" +
			"those that are there; on takes it back, and they go on. Both are in the audit log of the workspace, done by\n" +
			"\"operator\".",
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if org == "" || args[0] != "on" && args[0] != "off" {
				return command.Usage(fmt.Errorf("--org ORG_ID and on or off are required (see %s --help)", c.CommandPath()))
			}
			api, err := operatorClient(data)
			if err != nil {
				return err
			}
			enabled := args[0] == "on"
			asked := server.BackfillsRequest{OrgID: org, Enabled: &enabled}
			if err := api.Do(c.Context(), http.MethodPost, server.BackfillsPath, asked, &asked); err != nil {
				return fmt.Errorf("switch-backfills: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "backfills of %s are %s\n", asked.OrgID, args[0])
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "data directory of the server")
	c.Flags().StringVar(&org, "org", "", "the workspace, as GET /orgs has it (required)")
	return c
}
