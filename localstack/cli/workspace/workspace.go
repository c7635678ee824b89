// Package workspace has the commands about workspaces and their members.
package workspace

import (
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		command.Group(&cobra.Command{
			Use:   "orgs",
			Short: "List and create workspaces",
		}, listCommand(s), createCommand(s)),
		command.Group(&cobra.Command{
			Use:   "members",
			Short: "List and add members of the workspace, and change their roles",
		}, membersCommand(s), addCommand(s), roleCommand(s), rolesCommand(s)),
	}
}

// workspace is the part of a workspace that is printed.
type workspace struct {
	ID        string    `json:"org_id"`
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	Suspended bool      `json:"suspended"`
	Created   time.Time `json:"created_at"`
}

// state returns "suspended" or "".
func state(suspended bool) string {
	if suspended {
		return "suspended"
	}
	return ""
}

var columns = output.Columns[workspace]{
	Titles: []string{"ORG ID", "NAME", "ROLE", "CREATED", "STATE"},
	Cells: func(out *output.Printer, w workspace) []string {
		return []string{w.ID, w.Name, w.Role, out.Time(w.Created), state(w.Suspended)}
	},
}

func listCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List your workspaces, the earliest joined first",
		Long:  "Lists your workspaces. MILLRACE_ORG selects one of them for the other commands.",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/orgs", nil, columns)
		},
	}
}

func createCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "create NAME",
		Short: "Create a workspace, which you own",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Change(c, s, http.MethodPost, "/orgs", map[string]any{"name": args[0]}, func(out *output.Printer, made workspace) {
				out.Printf("%s is %s\n", made.Name, made.ID)
			})
		},
	}
}
