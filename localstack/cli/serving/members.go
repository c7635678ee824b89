package serving

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/embedded/server"
)

func suspendCommand() *cobra.Command {
	return memberCommand("suspend-member", true, "Refuse a member's sessions and API keys in a workspace, from the next request on",
		"Asks the running server to refuse with 403, from the next request on, a member's sessions and the API keys\n"+
			"that they made in a workspace. What they started goes on. restore-member takes it back; both are in the\n"+
			"audit log of the workspace, done by \"operator\".")
}

func restoreCommand() *cobra.Command {
	return memberCommand("restore-member", false, "Accept again the sessions and API keys of a member who was suspended", "")
}

func memberCommand(name string, suspended bool, short, long string) *cobra.Command {
	var data, org string
	c := &cobra.Command{
		Use:   name + " --org ORG_ID EMAIL",
		Short: short,
		Long:  long,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if org == "" {
				return command.Usage(fmt.Errorf("--org ORG_ID is required (see %s --help)", c.CommandPath()))
			}
			api, err := operatorClient(data)
			if err != nil {
				return err
			}
			asked := server.MemberRequest{OrgID: org, Email: args[0], Suspended: &suspended}
			if err := api.Do(c.Context(), http.MethodPost, server.MembersPath, asked, &asked); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			state := "may use"
			if suspended {
				state = "is suspended in"
			}
			fmt.Fprintf(c.OutOrStdout(), "%s %s %s\n", asked.Email, state, asked.OrgID)
			return nil
		},
	}
	c.Flags().StringVar(&data, "data", defaultData, "data directory of the server")
	c.Flags().StringVar(&org, "org", "", "the workspace, as GET /orgs has it (required)")
	return c
}
