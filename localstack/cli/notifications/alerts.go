package notifications

import (
	"encoding/json"
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

// rule is an alert rule as people read it.
type rule struct {
	ID         string    `json:"rule_id"`
	Name       string    `json:"name"`
	Trigger    string    `json:"trigger"`
	Flow       *string   `json:"flow_name"`
	Channels   []string  `json:"channel_ids"`
	SLASeconds *int64    `json:"sla_seconds"`
	Created    time.Time `json:"created_at"`
	By         string    `json:"created_by"`
}

func listRulesCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List alert rules",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/alert-rules", url.Values{"limit": {most}}, ruleColumns)
		},
	}
}

func getRuleCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "get RULE",
		Short: "Show an alert rule by its name or id",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.GetNamed(c, s, rules, args[0], ruleColumns.PrintOne)
		},
	}
}

var ruleColumns = output.Columns[rule]{
	Titles: []string{"RULE", "NAME", "FLOW", "SLA", "CHANNELS", "CREATED", "BY"},
	Cells: func(out *output.Printer, it rule) []string {
		flow, channels, sla := "every flow", "every channel", ""
		if it.Flow != nil {
			flow = *it.Flow
		}
		if len(it.Channels) > 0 {
			channels = strings.Join(it.Channels, " ")
		}
		if it.SLASeconds != nil {
			sla = strconv.FormatInt(*it.SLASeconds, 10) + " s"
		}
		return []string{it.ID, it.Name, flow, sla, channels, out.Time(it.Created), it.By}
	},
}

func createRuleCommand(s *session.Session) *cobra.Command {
	var name, flow string
	var to []string
	var sla time.Duration
	c := &cobra.Command{
		Use:   "create TRIGGER",
		Short: "Create a rule of on_failure, on_success, on_sla_breach or on_retry",
		Long: `Creates an alert rule. TRIGGER is on_failure (a run fails or times out), on_success (a run succeeds),
on_sla_breach (a run takes longer than --sla) or on_retry (a task is tried again).`,
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			body := map[string]any{"name": name, "trigger": args[0]}
			if name == "" {
				body["name"] = strings.TrimSpace(args[0] + " " + flow)
			}
			if flow != "" {
				body["flow_name"] = flow
			}
			if sla != 0 {
				if sla%time.Second != 0 {
					return command.Usagef("--sla is whole seconds, such as 90s or 2h")
				}
				body["sla_seconds"] = int64(sla / time.Second)
			}
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			var ids []string
			for _, name := range to {
				id, err := channels.Find(c.Context(), api, name)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			if len(ids) > 0 {
				body["channel_ids"] = ids
			}
			return session.Send(c, s, api, http.MethodPost, rules.Path, body, func(out *output.Printer, made rule) error {
				out.Printf("%s is created\n", made.ID)
				return nil
			})
		},
	}
	c.Flags().StringVar(&name, "name", "", "what messages call the rule (default: its trigger and flow)")
	c.Flags().StringVar(&flow, "flow", "", "only runs of this flow (default: of every flow)")
	c.Flags().StringSliceVar(&to, "channel", nil, "name or id of a channel; repeat for more (default: every channel)")
	command.DurationVar(c.Flags(), &sla, "sla", "how long a run may take, of on_sla_breach, such as 90s or 2h")
	return c
}

func testRuleCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "test RULE",
		Short: "Send a test message to each channel of a rule, and show what became of it",
		Long:  `Sends a message that is marked as a test to each channel of a rule. The exit code is 1 if one did not accept it.`,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			id, err := rules.Find(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			var answer json.RawMessage
			if err := api.Do(c.Context(), http.MethodPost, rules.Path+"/"+url.PathEscape(id)+"/test", nil, &answer); err != nil {
				return err
			}
			var outcome struct {
				Delivered []struct {
					Channel string `json:"channel_id"`
					Status  string `json:"status"`
					Detail  string `json:"detail"`
				} `json:"delivered"`
			}
			if err := json.Unmarshal(answer, &outcome); err != nil {
				return err
			}
			code, rows := command.Done, make([][]string, len(outcome.Delivered))
			for i, it := range outcome.Delivered {
				if it.Status != "delivered" {
					code = command.Failure
				}
				rows[i] = []string{it.Channel, it.Status, it.Detail}
			}
			out := s.Out(c)
			switch {
			case out.JSON:
				err = out.Value(answer)
			case len(rows) == 0:
				out.Printf("there is no channel to send to: create one by millrace channels create\n")
			default:
				err = out.Table([]string{"CHANNEL", "STATUS", "DETAIL"}, rows)
			}
			if err != nil {
				return err
			}
			return command.Exit(code)
		},
	}
}
