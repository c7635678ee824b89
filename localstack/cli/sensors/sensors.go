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

// path returns the path of a sensor.
func path(id string) string { return "/sensors/" + url.PathEscape(id) }

func listCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List sensors, the oldest first",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return ask(c, s, http.MethodGet, "/sensors?limit="+most, nil, func(out *output.Printer, list struct {
				Items []sensor `json:"items"`
			}) error {
				return table(out, list.Items...)
			})
		},
	}
}

func table(out *output.Printer, all ...sensor) error {
	rows := make([][]string, len(all))
	for i, v := range all {
		rows[i] = []string{v.ID, v.Name, v.Type, v.Flow, v.watches(), v.state(), out.Time(v.Created), v.Error}
	}
	return out.Table([]string{"SENSOR", "NAME", "TYPE", "FLOW", "WATCHES", "STATE", "CREATED", "LAST ERROR"}, rows)
}

func getCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "get SENSOR",
		Short: "Show a sensor, the URL of a webhook, and the last poll of a polling sensor",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return ask(c, s, http.MethodGet, path(args[0]), nil, func(out *output.Printer, v sensor) error {
				if err := table(out, v); err != nil {
					return err
				}
				v.tellPolls(out)
				return tell(out, s, v)
			})
		},
	}
}

// tellPolls prints the last and the next poll of a polling sensor.
func (v sensor) tellPolls(out *output.Printer) {
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

// tell prints the URL of a webhook.
func tell(out *output.Printer, s *session.Session, v sensor) error {
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
			return ask(c, s, http.MethodDelete, path(args[0]), nil, func(out *output.Printer, _ struct{}) error {
				out.Printf("%s is deleted\n", args[0])
				return nil
			})
		},
	}
}

func testCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "test SENSOR",
		Short: "Tell whether an event of a sensor would start a run, and with which parameters",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			return ask(c, s, http.MethodPost, path(args[0])+"/test", nil, func(out *output.Printer, v struct {
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

// ask makes a request and prints the API's JSON, or shows the response.
func ask[T any](c *cobra.Command, s *session.Session, method, at string, body any, show func(*output.Printer, T) error) error {
	api, err := s.Client()
	if method != http.MethodGet && !strings.HasSuffix(at, "/test") {
		api, err = s.Changing(c)
	}
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := api.Do(c.Context(), method, at, body, &answer); err != nil {
		return err
	}
	out := s.Out(c)
	if out.JSON {
		return out.Value(answer)
	}
	var v T
	if err := json.Unmarshal(answer, &v); err != nil {
		return err
	}
	return show(out, v)
}
