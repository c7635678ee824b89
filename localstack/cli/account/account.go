// Package account has the commands login, logout and whoami.
package account

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{loginCommand(s, session.Browse), logoutCommand(s), whoamiCommand(s)}
}

func whoamiCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show the server, user, workspace and role that commands use",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			target, err := s.Target()
			if err != nil {
				return err
			}
			return session.Get(c, s, "/users/me", func(out *output.Printer, me struct {
				Email   string `json:"user_email"`
				Org     string `json:"org_id"`
				OrgName string `json:"org_name"`
				Role    string `json:"role"`
			}) error {
				workspace, role := "none", me.Role
				if me.Org != "" {
					workspace, role = fmt.Sprintf("%s (%s)", me.OrgName, me.Org), cmp.Or(me.Role, "API key")
				}
				out.Printf("server     %s (%s)\nuser       %s\nworkspace  %s\n", target.URL, target.Source, me.Email, workspace)
				if role != "" {
					out.Printf("role       %s\n", role)
				}
				return nil
			})
		},
	}
}
