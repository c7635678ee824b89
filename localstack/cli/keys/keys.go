// Package keys has the commands about API keys.
package keys

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "keys",
		Short: "List, create and delete API keys",
	}, listCommand(s), createCommand(s), deleteCommand(s))}
}

// key is the part of an API key that is printed.
type key struct {
	ID      string    `json:"key_id"`
	Key     string    `json:"key"` // only in the response to its creation
	Prefix  string    `json:"key_prefix"`
	Name    string    `json:"name"`
	Scopes  []string  `json:"scopes"`
	Created time.Time `json:"created_at"`
	Expires *int64    `json:"expires_at"` // Unix seconds
}

func (k key) expires(out *output.Printer) string {
	if k.Expires == nil {
		return "never"
	}
	return out.Time(time.Unix(*k.Expires, 0))
}

func (k key) may() string {
	if len(k.Scopes) == 0 {
		return "all"
	}
	return strings.Join(k.Scopes, " ")
}

var columns = output.Columns[key]{
	Titles: []string{"KEY ID", "PREFIX", "NAME", "CREATED", "EXPIRES", "SCOPES"},
	Cells: func(out *output.Printer, k key) []string {
		return []string{k.ID, k.Prefix, k.Name, out.Time(k.Created), k.expires(out), k.may()}
	},
}

func listCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the workspace's API keys, the newest first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/api-keys", nil, columns)
		},
	}
}

func createCommand(s *session.Session) *cobra.Command {
	var scopes []string
	var all bool
	var days int
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create an API key and print it: it is shown only once",
		Long:  "Creates an API key, which may read flows and runs unless --scope or --all allow more, and prints it on stdout.",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"name": args[0]}
			switch {
			case all && len(scopes) > 0:
				return command.Usagef("--all is every scope: give no --scope with it")
			case all:
				body["scopes"] = []string{} // the API's form of no scopes
			case len(scopes) > 0:
				body["scopes"] = scopes
			}
			if c.Flags().Changed("days") {
				body["expires_in_days"] = days
			}
			return session.Change(c, s, http.MethodPost, "/api-keys", body, func(out *output.Printer, made key) {
				fmt.Fprintf(c.ErrOrStderr(), "%s, expires: %s, scopes: %s\n", made.ID, made.expires(out), made.may())
				out.Printf("%s\n", made.Key)
			})
		},
	}
	f := c.Flags()
	f.StringArrayVar(&scopes, "scope", nil, "what it may do, such as runs.trigger; repeat for more (default: flows.read and runs.read)")
	f.BoolVar(&all, "all", false, "it may do everything that an owner may")
	f.IntVar(&days, "days", 0, "days until it expires (default: never)")
	return c
}

func deleteCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "delete KEY_ID",
		Short: "Delete an API key, which becomes invalid at once",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Change(c, s, http.MethodDelete, "/api-keys/"+url.PathEscape(args[0]), nil, func(out *output.Printer, _ struct{}) {
				out.Printf("%s is deleted\n", args[0])
			})
		},
	}
}
