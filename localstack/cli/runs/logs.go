package runs

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// followEvery is the poll interval of a log without new events.
const followEvery = 250 * time.Millisecond

// levels from the least to the most serious.
var levels = []string{"debug", "info", "warning", "error", "critical"}

// reading holds the flags of logs.
type reading struct {
	follow             bool
	task, level, since string
	from               time.Time
}

func logsCommand(s *session.Session) *cobra.Command {
	var o reading
	c := &cobra.Command{
		Use:   "logs RUN",
		Short: "Print the log of a run's tasks",
		Long:  "Prints the log of a run's tasks. " + naming,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			api, err := s.Client()
			if err != nil {
				return err
			}
			id, err := find(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			o.wait(c, api)
			return o.print(c.Context(), api, id, s.Out(c))
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on until the run has ended")
	f.StringVar(&o.task, "task", "", "only events of this task, or of an instance: price[3]")
	f.StringVar(&o.level, "level", "", "only events of this level or a more serious one: debug, info, warning, error, critical")
	f.StringVar(&o.since, "since", "", "only events since: a duration such as 90s or 1d, or a time in RFC 3339")
	return c
}

// wait makes the client of a log that is followed wait for a server that restarts.
func (o *reading) wait(c *cobra.Command, api *client.Client) {
	if o.follow {
		api.Patience = session.Patience(c, session.WatchPatience, nil)
	}
}

func (o *reading) check() (err error) {
	if o.level = strings.ToLower(o.level); o.level == "warn" {
		o.level = "warning"
	}
	if o.task != "" && !instance.MatchString(o.task) {
		return command.Usagef("--task is a task, such as price or price[3], not %q", o.task)
	}
	if o.level != "" && !slices.Contains(levels, o.level) {
		return command.Usagef("--level is debug, info, warning, error or critical, not %q", o.level)
	}
	if o.since == "" {
		return nil
	}
	if o.from, err = Since(o.since, time.Now()); err != nil {
		return command.Usagef("--since: %w", err)
	}
	return nil
}

// print prints the log: to its end if it is followed or the run has ended, otherwise
// what exists.
func (o *reading) print(ctx context.Context, api *client.Client, id string, out *output.Printer) error {
	filter := client.LogFilter{Level: o.level, Since: o.from}
	if m := instance.FindStringSubmatch(o.task); m != nil {
		filter.Task = m[1]
	}
	token, ended := "", false
	for {
		page, err := api.LogPage(ctx, id, filter, token)
		if err != nil {
			return err
		}
		for _, data := range page.Events {
			if err := o.event(out, data); err != nil {
				return err
			}
		}
		before := token
		if token = page.NextToken; token == "" {
			return nil
		}
		// If the log has ended, an empty page is one without events that match the filter.
		if len(page.Events) > 0 || ended && token != before {
			continue
		}
		// The log of an ended run is completed shortly after the run.
		if !ended {
			run, err := api.Run(ctx, id)
			if err != nil || !run.Ended() && !o.follow {
				return err
			}
			if ended = run.Ended(); ended && token != before {
				continue
			}
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// event prints an event unless it is of another instance of the task than requested.
func (o *reading) event(out *output.Printer, data json.RawMessage) error {
	var e client.LogEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return err
	}
	name := label(client.TaskRun{TaskName: e.TaskName, MapIndex: e.MapIndex})
	if o.task != "" && o.task != e.TaskName && o.task != name {
		return nil
	}
	if out.JSON {
		return out.Value(data)
	}
	when := e.Timestamp
	if at, err := time.Parse(time.RFC3339Nano, when); err == nil && out.Terminal {
		when = at.Local().Format("15:04:05.000")
	}
	if name == "" {
		name = "run"
	}
	out.Printf("%s %s %s: %s%s\n", when, out.Colored(e.Level), name, e.Message, fields(e.Fields))
	return nil
}

// fields formats the fields of ctx.log, which follow the message: key=value, strings
// without quotes.
func fields(all map[string]json.RawMessage) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(all)) {
		var text string
		if json.Unmarshal(all[key], &text) != nil {
			text = string(all[key])
		}
		b.WriteString(" " + key + "=" + text)
	}
	return b.String()
}
