// Package environments has the commands about environments and their variables.
package environments

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// most is the page size of the list.
const most = "1000"

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "env",
		Short: "List, create, delete, compare and promote environments, and set their variables",
	}, listCommand(s), getCommand(s), createCommand(s), deleteCommand(s), varsCommand(s), diffCommand(s), promoteCommand(s))}
}

// environment is the part of an environment that is printed.
type environment struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	Protected   bool      `json:"protected"`
	Variables   int       `json:"variable_count"`
	Created     time.Time `json:"created_at"`
	CreatedBy   string    `json:"created_by"`
}

// path returns the path of an environment, or one below it.
func path(name string, below ...string) string {
	out := "/environments/" + url.PathEscape(name)
	for _, part := range below {
		out += "/" + url.PathEscape(part)
	}
	return out
}

var columns = output.Columns[environment]{
	Titles: []string{"ENV", "PROTECTED", "VARIABLES", "CREATED", "BY", "DESCRIPTION"},
	Cells: func(out *output.Printer, e environment) []string {
		return []string{e.Name, yes(e.Protected), strconv.Itoa(e.Variables), out.Time(e.Created), e.CreatedBy, e.Description}
	},
}

func listCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List environments in their order",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/environments", url.Values{"limit": {most}}, columns)
		},
	}
}

func getCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "get ENV",
		Short: "Show an environment",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Get(c, s, path(args[0]), columns.PrintOne)
		},
	}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

func createCommand(s *session.Session) *cobra.Command {
	var description, color string
	var protected bool
	c := &cobra.Command{
		Use:   "create ENV",
		Short: "Create an environment; a deployment to a missing environment creates it, too",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"name": args[0], "description": description, "color": color, "protected": protected}
			return change(c, s, http.MethodPost, "/environments", body, args[0]+" is created")
		},
	}
	c.Flags().StringVar(&description, "description", "", "what it is for")
	c.Flags().StringVar(&color, "color", "", "shown beside its name")
	c.Flags().BoolVar(&protected, "protected", false, "let only owners and admins promote into it")
	return c
}

func deleteCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ENV",
		Short: "Delete an environment with its variables and secrets",
		Long: `Deletes an environment with its variables and secrets. One that a deployment or an unfinished run is in
cannot be deleted, nor can default.`,
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return change(c, s, http.MethodDelete, path(args[0]), nil, args[0]+" is deleted")
		},
	}
}

// change makes a request that changes something, and prints the response or what was
// done.
func change(c *cobra.Command, s *session.Session, method, at string, body any, did string) error {
	return session.Change(c, s, method, at, body, func(out *output.Printer, _ any) { out.Printf("%s\n", did) })
}
