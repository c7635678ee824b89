package environments

import (
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// edit is a change of variables.
type edit struct {
	set             map[string]any // text by key, nil to delete
	enable, disable []string
}

// shown is the part of a variable that is printed.
type shown struct {
	Key       string    `json:"key"`
	Value     string    `json:"value"`
	Enabled   bool      `json:"enabled"`
	Updated   time.Time `json:"updated_at"`
	UpdatedBy string    `json:"updated_by"`
}

var variableColumns = output.Columns[shown]{
	Titles: []string{"VARIABLE", "VALUE", "ENABLED", "UPDATED", "BY"},
	Cells: func(out *output.Printer, v shown) []string {
		return []string{v.Key, v.Value, yes(v.Enabled), out.Time(v.Updated), v.UpdatedBy}
	},
}

func varsCommand(s *session.Session) *cobra.Command {
	var unset, enable, disable []string
	c := &cobra.Command{
		Use:   "vars ENV [KEY=VALUE]…",
		Short: "List or set an environment's variables, which expressions of its runs read as vars.KEY",
		Long: `Lists an environment's variables, after it has set, removed, enabled or disabled those that are named.
A run sees the enabled ones as they were when it was accepted. What is secret belongs into a secret.`,
		Example: `  millrace env vars production
  millrace env vars production REGION=eu BATCH=500 --unset OLD`,
		Args: command.Args(cobra.MinimumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			e := edit{map[string]any{}, enable, disable}
			for _, arg := range args[1:] {
				key, value, ok := strings.Cut(arg, "=")
				if !ok {
					return command.Usagef("%q is not KEY=VALUE", arg)
				}
				e.set[key] = value
			}
			for _, key := range unset {
				if _, both := e.set[key]; both {
					return command.Usagef("%s is set and unset", key)
				}
				e.set[key] = nil
			}
			return vars(c, s, args[0], e)
		},
	}
	c.Flags().StringArrayVar(&unset, "unset", nil, "remove a variable; repeat for more")
	c.Flags().StringArrayVar(&enable, "enable", nil, "let runs see a variable again; repeat for more")
	c.Flags().StringArrayVar(&disable, "disable", nil, "let runs no longer see a variable; repeat for more")
	return c
}

func vars(c *cobra.Command, s *session.Session, environment string, e edit) error {
	if len(e.set)+len(e.enable)+len(e.disable) > 0 {
		if err := e.apply(c, s, environment); err != nil {
			return err
		}
	}
	return session.List(c, s, path(environment, "variables"), nil, variableColumns)
}

// apply makes the requests of a change.
func (e edit) apply(c *cobra.Command, s *session.Session, environment string) error {
	api, err := s.Changing(c)
	if err != nil {
		return err
	}
	if len(e.set) > 0 {
		if err := api.Do(c.Context(), http.MethodPatch, path(environment, "variables"), map[string]any{"variables": e.set}, nil); err != nil {
			return err
		}
	}
	for enabled, keys := range map[bool][]string{true: e.enable, false: e.disable} {
		for _, key := range keys {
			at := path(environment, "variables", key, "toggle")
			if err := api.Do(c.Context(), http.MethodPost, at, map[string]any{"enabled": enabled}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}
