// Package flows has the commands about flows and deployments.
package flows

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// most is the page size of lists.
const most = 500

// Commands returns the commands that need a server.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{flowsCommand(s), deploymentsCommand(s), rollbackCommand(s), deployCommand(s), initCommand()}
}

// flow is the part of a flow that is printed.
type flow struct {
	Name     string    `json:"flow_name"`
	Latest   string    `json:"latest_version"`
	Versions int       `json:"version_count"`
	Updated  time.Time `json:"updated_at"`
}

var flowColumns = output.Columns[flow]{
	Titles: []string{"FLOW", "LATEST", "VERSIONS", "UPDATED"},
	Cells: func(out *output.Printer, f flow) []string {
		return []string{f.Name, f.Latest, strconv.Itoa(f.Versions), out.Time(f.Updated)}
	},
}

func flowsCommand(s *session.Session) *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use:   "flows",
		Short: "List flows",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/flows", listQuery(environment), flowColumns)
		},
	}
	c.Flags().StringVar(&environment, "env", "", "only flows that have a deployment in this environment")
	c.AddCommand(deleteCommand(s, "flow", "/flows/", "Delete a flow with all its versions; its runs stay"))
	return c
}

// deleteCommand deletes a flow or a deployment.
func deleteCommand(s *session.Session, noun, path, short string) *cobra.Command {
	return &cobra.Command{
		Use:   "delete " + strings.ToUpper(noun),
		Short: short,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.Change(c, s, http.MethodDelete, path+url.PathEscape(args[0]), nil, func(out *output.Printer, _ any) {
				out.Printf("%s %s is deleted\n", noun, args[0])
			})
		},
	}
}

// listQuery asks for as many as one request lists, of an environment unless it is
// empty.
func listQuery(environment string) url.Values {
	query := url.Values{"limit": {strconv.Itoa(most)}}
	if environment != "" {
		query.Set("environment", environment)
	}
	return query
}

// deployment is the part of a deployment that is printed.
type deployment struct {
	Name        string    `json:"deployment_name"`
	Version     int       `json:"deployment_version"`
	Flow        string    `json:"flow_name"`
	FlowVersion string    `json:"flow_version"`
	Environment string    `json:"environment"`
	Tier        string    `json:"execution_mode"`
	Schedule    string    `json:"schedule"`
	Timezone    string    `json:"timezone"`
	Updated     time.Time `json:"updated_at"`
}

// timing is the deployment's own schedule, "" for none.
func (d deployment) timing() string {
	if d.Schedule == "" {
		return ""
	}
	return strings.TrimSpace(d.Schedule + " " + d.Timezone)
}

var deploymentColumns = output.Columns[deployment]{
	Titles: []string{"DEPLOYMENT", "VERSION", "FLOW", "FLOW VERSION", "ENV", "TIER", "SCHEDULE", "UPDATED"},
	Cells: func(out *output.Printer, d deployment) []string {
		return []string{d.Name, strconv.Itoa(d.Version), d.Flow, d.FlowVersion, d.Environment, d.Tier, d.timing(), out.Time(d.Updated)}
	},
}

func deploymentsCommand(s *session.Session) *cobra.Command {
	var environment string
	c := &cobra.Command{
		Use:   "deployments",
		Short: "List deployments",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/deployments", listQuery(environment), deploymentColumns)
		},
	}
	c.Flags().StringVar(&environment, "env", "", "only deployments in this environment")
	c.AddCommand(deleteCommand(s, "deployment", "/deployments/", "Delete a deployment and its own schedule; runs that it started go on"))
	return c
}

func rollbackCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "rollback DEPLOYMENT [VERSION]",
		Short: "Restore an earlier version of a deployment, by default the previous one",
		Args:  command.Args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{}
			if len(args) == 2 {
				version, err := strconv.Atoi(args[1])
				if err != nil || version < 1 {
					return command.Usagef("VERSION is a number of the deployment's versions (see millrace deployments), not %q", args[1])
				}
				body["deployment_version"] = version
			}
			return session.Change(c, s, http.MethodPost, "/deployments/"+url.PathEscape(args[0])+"/rollback", body, func(out *output.Printer, d deployment) {
				out.Printf("%s: %s %s, deployment version %d\n", d.Name, d.Flow, d.FlowVersion, d.Version)
			})
		},
	}
}
