// Package notifications has the commands about notification channels and alert
// rules.
package notifications

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// most is how many channels and rules are listed.
const most = "1000"

// How channels and rules are named.
var (
	channels = session.Named{Path: "/channels", Field: "channel_id", Noun: "channel", List: "millrace channels list"}
	rules    = session.Named{Path: "/alert-rules", Field: "rule_id", Noun: "alert rule", List: "millrace alerts list"}
)

// Commands are all of them.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{
		command.Group(&cobra.Command{
			Use:   "channels",
			Short: "List, create and delete the channels that alerts go to: chat, email, webhook, incident",
		}, listChannelsCommand(s), getChannelCommand(s), createChannelCommand(s), deleteCommand(s, channels, "CHANNEL", "Delete a channel that no alert rule names")),
		command.Group(&cobra.Command{
			Use:   "alerts",
			Short: "List, create, delete and test alert rules, which tell channels about runs",
		}, listRulesCommand(s), getRuleCommand(s), createRuleCommand(s), testRuleCommand(s), deleteCommand(s, rules, "RULE", "Delete an alert rule")),
	}
}

// channel is a channel as people read it.
type channel struct {
	ID      string    `json:"channel_id"`
	Type    string    `json:"channel_type"`
	Name    string    `json:"name"`
	Config  string    `json:"config_json"`
	Created time.Time `json:"created_at"`
	By      string    `json:"created_by"`
	Last    *struct {
		At     time.Time `json:"at"`
		Status string    `json:"status"`
		Detail string    `json:"detail"`
	} `json:"last_delivery"`
}

func listChannelsCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List channels, with the outcome of their last message",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/channels", url.Values{"limit": {most}}, channelColumns)
		},
	}
}

func getChannelCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "get CHANNEL",
		Short: "Show a channel by its name or id",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.GetNamed(c, s, channels, args[0], channelColumns.PrintOne)
		},
	}
}

var channelColumns = output.Columns[channel]{
	Titles: []string{"CHANNEL", "TYPE", "NAME", "CONFIG", "CREATED", "BY", "LAST MESSAGE", "DETAIL"},
	Cells: func(out *output.Printer, it channel) []string {
		last, detail := "", ""
		if it.Last != nil {
			last, detail = it.Last.Status+" "+out.Time(it.Last.At), it.Last.Detail
		}
		return []string{it.ID, it.Type, it.Name, it.Config, out.Time(it.Created), it.By, last, detail}
	},
}

// secretOf is what is read from a prompt or stdin for a type of channel.
var secretOf = map[string]struct{ field, what string }{
	"chat":     {"webhook_url", "incoming webhook URL"},
	"webhook":  {"url", "URL"},
	"incident": {"routing_key", "routing key"},
}

func createChannelCommand(s *session.Session) *cobra.Command {
	var to []string
	var config string
	c := &cobra.Command{
		Use:   "create TYPE NAME",
		Short: "Create a channel of type chat, email, webhook or incident",
		Long: `Creates a channel. What is secret comes from stdin or a prompt, never from the command line: the URL of a
chat's incoming webhook, the URL of a webhook, the routing key of an incident. An email channel takes --to.

--config FILE (- for stdin) takes the whole configuration as JSON instead:
  chat      {"webhook_url": "https://…"}
  email     {"to": ["ops@example.com"]}
  webhook   {"url": "https://…", "secret": "whsec_…", "headers": {"Authorization": "…"}}
  incident  {"routing_key": "…", "url": "https://…"}`,
		Args: command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			text, err := readConfig(c, args[0], config, to)
			if err != nil {
				return err
			}
			body := map[string]any{"channel_type": args[0], "name": args[1], "config_json": text}
			return session.Send(c, s, api, http.MethodPost, "/channels", body, func(out *output.Printer, made channel) error {
				out.Printf("%s is created\n", made.ID)
				return nil
			})
		},
	}
	c.Flags().StringSliceVar(&to, "to", nil, "addresses of an email channel")
	c.Flags().StringVar(&config, "config", "", "file with the configuration as JSON, - for stdin")
	return c
}

// readConfig returns the configuration of a channel as JSON.
func readConfig(c *cobra.Command, channelType, file string, to []string) (string, error) {
	secret, known := secretOf[channelType]
	switch {
	case channelType != "email" && !known:
		return "", command.Usagef("%q is no type of channel: chat, email, webhook or incident", channelType)
	case len(to) > 0 && (channelType != "email" || file != ""):
		return "", command.Usagef("--to is for email channels without --config")
	case file == "-":
		return readText(c, "configuration")
	case file != "":
		data, err := os.ReadFile(file)
		return string(data), err
	case channelType == "email" && len(to) == 0:
		return "", command.Usagef("an email channel takes --to ADDRESS")
	case channelType == "email":
		return encode(map[string]any{"to": to})
	}
	value, err := readText(c, secret.what)
	if err != nil {
		return "", err
	}
	return encode(map[string]any{secret.field: strings.TrimSpace(value)})
}

// readText takes a value from a prompt or from stdin.
func readText(c *cobra.Command, what string) (string, error) {
	text, err := session.ReadSecret(c.InOrStdin(), c.ErrOrStderr(), what)
	if err == nil && strings.TrimSpace(text) == "" {
		err = command.Usage(errors.New("the " + what + " is empty: give it on stdin, or at the prompt of a terminal"))
	}
	return text, err
}

func encode(v any) (string, error) {
	data, err := json.Marshal(v)
	return string(data), err
}

// deleteCommand deletes a channel or a rule.
func deleteCommand(s *session.Session, n session.Named, arg, short string) *cobra.Command {
	return &cobra.Command{
		Use:   "delete " + arg,
		Short: short,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.DeleteNamed(c, s, n, args[0])
		},
	}
}
