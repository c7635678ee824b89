// Package workspace has the commands about workspaces and their members.
package workspace

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
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

func listCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List your workspaces, the earliest joined first",
		Long:  "Lists your workspaces. MILLRACE_ORG selects one of them for the other commands.",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := s.Client()
			if err != nil {
				return err
			}
			var answer json.RawMessage
			if err := api.Do(c.Context(), http.MethodGet, "/orgs", nil, &answer); err != nil {
				return err
			}
			out := s.Out(c)
			if out.JSON {
				return out.Value(answer)
			}
			var list struct {
				Items []workspace `json:"items"`
			}
			if err := json.Unmarshal(answer, &list); err != nil {
				return err
			}
			rows := make([][]string, len(list.Items))
			for i, w := range list.Items {
				rows[i] = []string{w.ID, w.Name, w.Role, out.Time(w.Created), state(w.Suspended)}
			}
			return out.Table([]string{"ORG ID", "NAME", "ROLE", "CREATED", "STATE"}, rows)
		},
	}
}

func createCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "create NAME",
		Short: "Create a workspace, which you own",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			var answer json.RawMessage
			if err := api.Do(c.Context(), http.MethodPost, "/orgs", map[string]any{"name": args[0]}, &answer); err != nil {
				return err
			}
			out := s.Out(c)
			if out.JSON {
				return out.Value(answer)
			}
			var made workspace
			if err := json.Unmarshal(answer, &made); err != nil {
				return err
			}
			out.Printf("%s is %s\n", made.Name, made.ID)
			return nil
		},
	}
}
