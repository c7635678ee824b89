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

// state is a variable in one environment.
type state struct {
	Value   string `json:"value"`
	Enabled bool   `json:"enabled"`
}

func (v *state) String() string {
	switch {
	case v == nil:
		return ""
	case !v.Enabled:
		return v.Value + " (disabled)"
	}
	return v.Value
}

type pinned struct {
	Deployment string `json:"deployment_name"`
	Version    string `json:"flow_version"`
}

func text(all []pinned) string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.Version + " (" + p.Deployment + ")"
	}
	return strings.Join(out, ", ")
}

type flow struct {
	Name string   `json:"flow_name"`
	From []pinned `json:"from"`
	To   []pinned `json:"to"`
}

type variable struct {
	Key  string `json:"key"`
	From *state `json:"from"`
	To   *state `json:"to"`
}

// differences holds what was added, removed and changed.
type differences[T any] struct {
	Added   []T `json:"added"`
	Removed []T `json:"removed"`
	Changed []T `json:"changed"`
}

// rows returns the rows of a table in the order of the response.
func (d differences[T]) rows(row func(T) []string) (out [][]string) {
	for _, part := range []struct {
		what string
		all  []T
	}{{"added", d.Added}, {"removed", d.Removed}, {"changed", d.Changed}} {
		for _, x := range part.all {
			out = append(out, append([]string{part.what}, row(x)...))
		}
	}
	return out
}

func diffCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "diff ENV OTHER",
		Short: "Show how OTHER differs from ENV: flow versions, variables and names of secrets",
		Args:  command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Get(c, s, path(args[0], "diff", args[1]), func(out *output.Printer, diff struct {
				Variables   differences[variable] `json:"variables"`
				Secrets     differences[string]   `json:"secrets"`
				Deployments differences[flow]     `json:"deployments"`
			}) error {
				rows := diff.Deployments.rows(func(f flow) []string { return []string{"flow " + f.Name, text(f.From), text(f.To)} })
				rows = append(rows, diff.Variables.rows(func(v variable) []string { return []string{"variable " + v.Key, v.From.String(), v.To.String()} })...)
				rows = append(rows, diff.Secrets.rows(func(name string) []string { return []string{"secret " + name, "", ""} })...)
				return out.Table([]string{"", "WHAT", strings.ToUpper(args[0]), strings.ToUpper(args[1])}, rows)
			})
		},
	}
}

func promoteCommand(s *session.Session) *cobra.Command {
	var deployments, variables []string
	var dry bool
	c := &cobra.Command{
		Use:   "promote SOURCE TARGET",
		Short: "Give an environment the flow versions and variables of another",
		Long: `Gives the deployments of TARGET the flow versions of those of the same flows in SOURCE, and copies variables.
A flow that TARGET has no deployment of gets one, with the schedule of that in SOURCE, enabled. All of both is promoted, or only what the flags name.
Secrets are not copied: millrace env diff shows which of them TARGET lacks.`,
		Example: `  millrace env promote staging production --dry-run
  millrace env promote staging production --deployment daily-staging --var REGION`,
		Args: command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"source": args[0], "target": args[1], "dry_run": dry}
			if len(deployments)+len(variables) > 0 {
				body["deployments"], body["variables"] = append([]string{}, deployments...), append([]string{}, variables...)
			}
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			return session.Send(c, s, api, http.MethodPost, "/environments/promote", body, func(out *output.Printer, p promotion) error { return p.print(out) })
		},
	}
	c.Flags().StringArrayVar(&deployments, "deployment", nil, "a deployment of SOURCE; repeat for more")
	c.Flags().StringArrayVar(&variables, "var", nil, "a variable of SOURCE; repeat for more")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show what would be done")
	return c
}

// promotion is what was promoted, or would be.
type promotion struct {
	DryRun      bool `json:"dry_run"`
	Deployments []struct {
		Name     string    `json:"deployment_name"`
		Flow     string    `json:"flow_name"`
		From     string    `json:"from_version"`
		To       string    `json:"to_version"`
		Action   string    `json:"action"`
		Schedule *schedule `json:"schedule"`
	} `json:"deployments"`
	Variables []struct {
		variable
		Action string `json:"action"`
	} `json:"variables"`
}

// schedule is that of a new deployment.
type schedule struct {
	ID       string `json:"schedule_id"`
	Cron     string `json:"cron_expression"`
	Timezone string `json:"timezone"`
	Enabled  bool   `json:"enabled"`
	NextRun  *int64 `json:"next_run_epoch"`
}

func (s *schedule) describe(out *output.Printer) string {
	text := s.Cron + " " + s.Timezone
	switch {
	case !s.Enabled:
		return text + " (disabled)"
	case s.NextRun == nil:
		return text + " (enabled)"
	}
	return text + " (enabled, next run " + out.Time(time.Unix(*s.NextRun, 0)) + ")"
}

func (p promotion) print(out *output.Printer) error {
	var rows [][]string
	for _, d := range p.Deployments {
		rows = append(rows, []string{d.Action, "deployment " + d.Name + " of flow " + d.Flow, d.From, d.To})
		if d.Schedule != nil {
			rows = append(rows, []string{d.Action, "schedule " + d.Schedule.ID, "", d.Schedule.describe(out)})
		}
	}
	for _, v := range p.Variables {
		rows = append(rows, []string{v.Action, "variable " + v.Key, v.From.String(), v.To.String()})
	}
	if len(rows) == 0 {
		out.Printf("nothing to promote: the target has it all\n")
		return nil
	}
	if p.DryRun {
		out.Printf("this would be done:\n")
	}
	return out.Table([]string{"", "WHAT", "FROM", "TO"}, rows)
}
