package schedules

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// setting are the flags of set.
type setting struct {
	deployment, flow, cron, timezone, catchUp, environment, tier string
	every                                                        time.Duration
	params                                                       []string
	disabled                                                     bool
}

func setCommand(s *session.Session) *cobra.Command {
	var o setting
	c := &cobra.Command{
		Use:   "set SCHEDULE (--deployment D | --flow FLOW@VERSION) (--cron EXPRESSION | --every 1h)",
		Short: "Create a schedule, or replace the one of that name",
		Long: `Creates a schedule, or replaces the one of that name with what the flags say. There is no command that
deletes one: disable it. The schedule that a deployment has by millrace deploy --schedule is changed there.`,
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := o.body(args[0])
			if err != nil {
				return err
			}
			return session.Change(c, s, http.MethodPost, "/schedules", body, tell)
		},
	}
	f := c.Flags()
	f.StringVar(&o.deployment, "deployment", "", "run the version that this deployment selects at the time")
	f.StringVar(&o.flow, "flow", "", "run this version of a flow: FLOW@VERSION")
	f.StringVar(&o.cron, "cron", "", "cron expression: five fields, or @hourly, @daily, @weekly, @monthly, @yearly")
	f.StringVar(&o.timezone, "timezone", "", "IANA zone of --cron (default: UTC)")
	command.DurationVar(f, &o.every, "every", "interval, of a minute or more, such as 90m or 1d")
	f.StringVar(&o.catchUp, "catch-up", "", "none (the default): one run for all that was missed; all: a run for each")
	f.StringVar(&o.environment, "env", "", "environment (default: the deployment's)")
	f.StringVar(&o.tier, "tier", "", "nano, micro, small, medium, large or xlarge (default: the deployment's)")
	f.StringArrayVarP(&o.params, "param", "p", nil, "k=v of a parameter, JSON where v is JSON, else text; repeat for more")
	f.BoolVar(&o.disabled, "disabled", false, "do not start runs yet")
	return c
}

// body is the request that the flags make.
func (o *setting) body(id string) (map[string]any, error) {
	if (o.deployment == "") == (o.flow == "") {
		return nil, command.Usagef("name either --deployment or --flow")
	}
	if (o.cron == "") == (o.every == 0) {
		return nil, command.Usagef("name either --cron or --every")
	}
	body := map[string]any{"schedule_id": id, "enabled": !o.disabled}
	if o.flow != "" {
		flow, version, ok := strings.Cut(o.flow, "@")
		if !ok || flow == "" || version == "" {
			return nil, command.Usagef("--flow is FLOW@VERSION, not %q", o.flow)
		}
		body["flow_name"], body["flow_version"] = flow, version
	}
	if o.every != 0 {
		if o.every%time.Second != 0 {
			return nil, command.Usagef("--every is of whole seconds, not %s", o.every)
		}
		body["mode"], body["interval_seconds"] = "interval", int64(o.every/time.Second)
	} else {
		body["mode"], body["cron_expression"] = "cron", o.cron
	}
	for name, value := range map[string]string{
		"deployment": o.deployment, "timezone": o.timezone, "catchup_policy": o.catchUp, "environment": o.environment, "execution_mode": o.tier,
	} {
		if value != "" {
			body[name] = value
		}
	}
	return body, parameters(o.params, body)
}

// parameters adds parameters to a body, unless there are none.
func parameters(given []string, body map[string]any) error {
	if len(given) == 0 {
		return nil
	}
	params := map[string]any{}
	for _, p := range given {
		name, value, ok := strings.Cut(p, "=")
		if !ok || name == "" {
			return command.Usagef("a parameter is k=v, not %q", p)
		}
		params[name] = value
		if json.Valid([]byte(value)) {
			params[name] = json.RawMessage(value)
		}
	}
	body["parameters"] = params
	return nil
}

func triggerCommand(s *session.Session) *cobra.Command {
	var params []string
	c := &cobra.Command{
		Use:   "trigger SCHEDULE",
		Short: "Start a run of a schedule now; its next run stays",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{}
			if err := parameters(params, body); err != nil {
				return err
			}
			return session.Change(c, s, http.MethodPost, path(args[0])+"/trigger", body, func(out *output.Printer, run struct {
				ID   string `json:"run_id"`
				Slug string `json:"run_slug"`
			}) {
				out.Printf("%s (%s)\n", run.Slug, run.ID)
			})
		},
	}
	c.Flags().StringArrayVarP(&params, "param", "p", nil, "k=v of a parameter, over the schedule's own; repeat for more")
	return c
}
