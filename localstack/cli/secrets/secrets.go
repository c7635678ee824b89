// Package secrets has the commands about secrets.
package secrets

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// most is the page size of the list.
const most = 1000

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "secrets",
		Short: "Set, list and remove secrets, which tasks read by ctx.secret(name)",
	}, setCommand(s), listCommand(s), removeCommand(s))}
}

func setCommand(s *session.Session) *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a secret or update its value, which is read from stdin or a prompt",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			value, err := read(c.InOrStdin(), c.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			return set(c, s, api, args[0], environment, value)
		},
	}
	c.Flags().StringVar(&environment, "env", "", "environment (default: the workspace's own, which every environment falls back to)")
	return c
}

// set creates the secret, or updates its value if it exists.
func set(c *cobra.Command, s *session.Session, api *client.Client, name, environment, value string) error {
	body := map[string]any{"name": name, "value": value}
	if environment != "" {
		body["environment"] = environment
	}
	var answer json.RawMessage
	err := api.Do(c.Context(), http.MethodPost, "/secrets", body, &answer)
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusConflict {
		delete(body, "name")
		err = api.Do(c.Context(), http.MethodPut, "/secrets/"+url.PathEscape(name), body, &answer)
	}
	if err != nil {
		return err
	}
	return session.Show(s.Out(c), answer, func(out *output.Printer, made secret) error {
		out.Printf("%s has version %d%s\n", made.Name, made.Version, made.in())
		return nil
	})
}

// read reads the value from a prompt or from stdin.
func read(in io.Reader, prompt io.Writer, name string) (string, error) {
	text, err := session.ReadSecret(in, prompt, "value of "+name)
	if err != nil {
		return "", err
	}
	if text == "" {
		return "", command.Usagef("the value is empty: give it on stdin, or at the prompt of a terminal")
	}
	return text, nil
}

// secret is the part of a secret that is printed.
type secret struct {
	Name        string    `json:"name"`
	Environment string    `json:"environment"`
	Version     int       `json:"version"`
	Updated     time.Time `json:"updated_at"`
	UpdatedBy   string    `json:"updated_by"`
}

func (s secret) in() string {
	if s.Environment == "" {
		return ""
	}
	return " in " + s.Environment
}

var columns = output.Columns[secret]{
	Titles: []string{"SECRET", "ENV", "VERSION", "UPDATED", "BY"},
	Cells: func(out *output.Printer, it secret) []string {
		return []string{it.Name, it.Environment, strconv.Itoa(it.Version), out.Time(it.Updated), it.UpdatedBy}
	},
}

func listCommand(s *session.Session) *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use:   "list",
		Short: "List secrets, without their values",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{"limit": {strconv.Itoa(most)}}
			if environment != "" {
				query.Set("environment", environment)
			}
			return session.List(c, s, "/secrets", query, columns)
		},
	}
	c.Flags().StringVar(&environment, "env", "", "only secrets of this environment")
	return c
}

func removeCommand(s *session.Session) *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a secret",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			path := "/secrets/" + url.PathEscape(args[0])
			if environment != "" {
				path += "?" + url.Values{"environment": {environment}}.Encode()
			}
			return session.Change(c, s, http.MethodDelete, path, nil, func(out *output.Printer, _ any) {
				out.Printf("%s is removed\n", args[0])
			})
		},
	}
	c.Flags().StringVar(&environment, "env", "", "environment (default: the workspace's own, else the only one it is in)")
	return c
}
