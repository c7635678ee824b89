package workspace

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// member is the part of a member that is printed.
type member struct {
	Email     string    `json:"email"`
	Role      string    `json:"role"`
	Suspended bool      `json:"suspended"`
	Added     time.Time `json:"added_at"`
	AddedBy   string    `json:"added_by"`
}

// at returns a path below that of the client's workspace.
func at(ctx context.Context, api *client.Client, below string) (string, error) {
	var me struct {
		OrgID string `json:"org_id"`
	}
	if err := api.Do(ctx, http.MethodGet, "/me", nil, &me); err != nil {
		return "", err
	}
	if me.OrgID == "" {
		return "", fmt.Errorf("you are a member of no workspace: create one with millrace orgs create NAME")
	}
	return "/orgs/" + url.PathEscape(me.OrgID) + below, nil
}

// read prints a list below the workspace as a table.
func read[T any](c *cobra.Command, s *session.Session, below string, columns output.Columns[T]) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	path, err := at(c.Context(), api, below)
	if err != nil {
		return err
	}
	return session.List(c, s, path, nil, columns)
}

func membersCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the members of the workspace, the earliest added first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return read(c, s, "/members", output.Columns[member]{
				Titles: []string{"EMAIL", "ROLE", "ADDED", "BY", "STATE"},
				Cells: func(out *output.Printer, m member) []string {
					return []string{m.Email, m.Role, out.Time(m.Added), m.AddedBy, state(m.Suspended)}
				},
			})
		},
	}
}

func rolesCommand(s *session.Session) *cobra.Command {
	type role struct {
		Role        string   `json:"role"`
		Permissions []string `json:"permissions"`
	}
	return &cobra.Command{
		Use:   "roles",
		Short: "List the roles and their permissions",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return read(c, s, "/roles", output.Columns[role]{
				Titles: []string{"ROLE", "PERMISSIONS"},
				Cells:  func(_ *output.Printer, r role) []string { return []string{r.Role, strings.Join(r.Permissions, " ")} },
			})
		},
	}
}

func addCommand(s *session.Session) *cobra.Command {
	var role string
	c := &cobra.Command{
		Use:   "add EMAIL",
		Short: "Add a member to the workspace",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return change(c, s, http.MethodPost, "/members", map[string]any{"email": args[0], "role": role})
		},
	}
	c.Flags().StringVar(&role, "role", "viewer", "owner, admin, developer or viewer; at most your own")
	return c
}

func roleCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "role EMAIL ROLE",
		Short: "Change the role of a member: owner, admin, developer or viewer",
		Args:  command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			return change(c, s, http.MethodPatch, "/members/"+url.PathEscape(args[0])+"/role", map[string]any{"role": args[1]})
		},
	}
}

// change changes a member and prints its new role.
func change(c *cobra.Command, s *session.Session, method, below string, body any) error {
	api, err := s.Changing(c)
	if err != nil {
		return err
	}
	path, err := at(c.Context(), api, below)
	if err != nil {
		return err
	}
	return session.Send(c, s, api, method, path, body, func(out *output.Printer, m member) error {
		out.Printf("%s is %s\n", m.Email, m.Role)
		return nil
	})
}
