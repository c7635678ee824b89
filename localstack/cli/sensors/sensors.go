// Package sensors has the commands about sensors.
package sensors

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

// most is the page size of the list.
const most = "1000"

// Commands returns the commands of this package.
func Commands(s *session.Session) []*cobra.Command {
	return []*cobra.Command{command.Group(&cobra.Command{
		Use:   "sensors",
		Short: "List, create, delete and test sensors, which start runs by webhooks, by polling and by stored objects",
	}, listCommand(s), getCommand(s), createCommand(s), deleteCommand(s), testCommand(s))}
}

// sensor is the part of a sensor that is printed.
type sensor struct {
	ID      string         `json:"sensor_id"`
	Name    string         `json:"name"`
	Type    string         `json:"sensor_type"`
	Flow    string         `json:"flow_name"`
	Config  map[string]any `json:"config_json"`
	Enabled bool           `json:"enabled"`
	Token   string         `json:"webhook_token"`
	Created time.Time      `json:"created_at"`
	Error   string         `json:"last_error"`

	NextPoll   time.Time `json:"next_poll_at"`
	LastPoll   time.Time `json:"last_polled_at"`
	LastStatus int       `json:"last_status"`
	Stopped    time.Time `json:"stopped_at"`
	LastRun    string    `json:"last_run_id"`
}

// state returns the state of a sensor in a word.
func (v sensor) state() string {
	switch {
	case !v.Enabled:
		return "off"
	case !v.Stopped.IsZero():
		return "stopped"
	}
	return "on"
}

// watches returns what a sensor watches, in a word.
func (v sensor) watches() string {
	text := func(field string) string {
		value, _ := v.Config[field].(string)
		return value
	}
	switch v.Type {
	case "polling":
		at, err := url.Parse(text("url"))
		if err != nil {
			return ""
		}
		return at.Host + at.Path
	case "objstore":
		return text("bucket") + "/" + text("prefix") + "*" + text("suffix")
	}
	return ""
}

// named is how sensors are named.
var named = session.Named{Path: "/sensors", Field: "sensor_id", Noun: "sensor", List: "millrace sensors list"}

func listCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List sensors, the oldest first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return session.List(c, s, "/sensors", url.Values{"limit": {most}}, columns)
		},
	}
}

var columns = output.Columns[sensor]{
	Titles: []string{"SENSOR", "NAME", "TYPE", "FLOW", "WATCHES", "STATE", "CREATED", "LAST ERROR"},
	Cells: func(out *output.Printer, v sensor) []string {
		return []string{v.ID, v.Name, v.Type, v.Flow, v.watches(), v.state(), out.Time(v.Created), v.Error}
	},
}

func getCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "get SENSOR",
		Short: "Show a sensor by its name or id, the URL of a webhook, and the last poll of a polling sensor",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.GetNamed(c, s, named, args[0], func(out *output.Printer, v sensor) error {
				if err := columns.Print(out, v); err != nil {
					return err
				}
				v.printPolls(out)
				return printURL(out, s, v)
			})
		},
	}
}

// printPolls prints the last and the next poll of a polling sensor.
func (v sensor) printPolls(out *output.Printer) {
	if !v.LastPoll.IsZero() {
		status := "no response"
		if v.LastStatus != 0 {
			status = "status " + strconv.Itoa(v.LastStatus)
		}
		out.Printf("last poll: %s, %s\n", out.Time(v.LastPoll), status)
	}
	if v.LastRun != "" {
		out.Printf("last run: %s\n", v.LastRun)
	}
	if !v.Stopped.IsZero() {
		out.Printf("stopped: %s, after its first match\n", out.Time(v.Stopped))
	} else if !v.NextPoll.IsZero() {
		out.Printf("next poll: %s\n", out.Time(v.NextPoll))
	}
}

// printURL prints the URL of a webhook.
func printURL(out *output.Printer, s *session.Session, v sensor) error {
	if v.Token == "" {
		return nil
	}
	target, err := s.Target()
	if err != nil {
		return err
	}
	out.Printf("POST %s/webhooks/%s\n", strings.TrimSuffix(target.URL, "/"), v.Token)
	return nil
}

func deleteCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "delete SENSOR",
		Short: "Delete a sensor; the URL of a webhook is unknown from then on",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return session.DeleteNamed(c, s, named, args[0])
		},
	}
}

func testCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "test SENSOR",
		Short: "Tell whether an event of a sensor would start a run, and with which parameters",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Client()
			if err != nil {
				return err
			}
			return session.SendNamed(c, s, api, named, args[0], http.MethodPost, "/test", func(out *output.Printer, v struct {
				Flow       string          `json:"flow_name"`
				Version    string          `json:"flow_version"`
				Would      bool            `json:"would_trigger"`
				Reason     string          `json:"reason"`
				Parameters json.RawMessage `json:"parameters"`
			}) error {
				switch {
				case v.Would && v.Reason != "":
					out.Printf("would start a run of %s %s, %s\n", v.Flow, v.Version, v.Reason)
				case v.Would:
					out.Printf("would start a run of %s %s\n", v.Flow, v.Version)
				default:
					out.Printf("would start no run of %s: %s\n", v.Flow, v.Reason)
				}
				out.Printf("parameters: %s\n", v.Parameters)
				return nil
			})
		},
	}
}
