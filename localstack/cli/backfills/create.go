package backfills

import (
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/runs"
	"millrace/localstack/cli/session"
)

// creating holds the flags of create.
type creating struct {
	from, to, cron, environment string
	interval                    time.Duration
	concurrency                 int
	params                      []string
	dry, watch                  bool
}

func createCommand(s *session.Session) *cobra.Command {
	var o creating
	c := &cobra.Command{
		Use:   "create FLOW --from TIME --to TIME",
		Short: "Run a flow once for each occurrence from one time to another",
		Long: `Runs a flow once for each occurrence of its schedule, of --cron or of --interval, from one time to
another, both included. A time is a date, which for --to means the end of that day, or a timestamp such as
2026-03-01T06:30:00+01:00. Without an offset it is in the zone of the stored schedule that gives the cadence,
otherwise in UTC. The parameters data_interval_start, logical_date and ds tell each run its occurrence.
What runs is what the flow's schedule runs; of a flow without a schedule, its version 1 or else the
deployment of its name.`,
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := o.body()
			if err != nil {
				return err
			}
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			if len(o.params) > 0 {
				if body["parameters"], err = runs.Parameters(c.Context(), api, args[0], o.params); err != nil {
					return err
				}
			}
			var answer json.RawMessage
			if err := api.Do(c.Context(), http.MethodPost, "/flows/"+url.PathEscape(args[0])+"/backfill", body, &answer); err != nil {
				return err
			}
			var b backfill
			if err := json.Unmarshal(answer, &b); err != nil {
				return err
			}
			out := s.Out(c)
			switch {
			case out.JSON && !(o.watch && !o.dry):
				return out.Value(answer)
			case o.dry:
				out.Printf("%d runs would be started, %d at once\n", b.Total, b.MaxConcurrency)
				return out.Table(titles, b.rows(out, true))
			case !out.JSON:
				out.Printf("%s  %d runs, %d at once\n", b.ID, b.Total, b.MaxConcurrency)
			}
			if o.watch {
				return watch(c, s, api, b.ID)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.from, "from", "", "first time of the window (required)")
	f.StringVar(&o.to, "to", "", "last time of the window (required)")
	f.StringVar(&o.cron, "cron", "", "cron expression, in UTC, instead of the schedule's")
	command.DurationVar(f, &o.interval, "interval", "interval from --from on, such as 12h or 1d, instead of the schedule's")
	f.IntVar(&o.concurrency, "max-concurrency", 1, "how many runs at once, at most 100")
	f.StringArrayVarP(&o.params, "param", "p", nil, "k=v of a parameter; repeat for more")
	f.StringVar(&o.environment, "env", "", "environment (default: the schedule's)")
	f.BoolVar(&o.dry, "dry-run", false, "only show what would run")
	f.BoolVarP(&o.watch, "watch", "w", false, "show its progress until all intervals are finished, and exit by the outcome")
	return c
}

// body is the request of the flags.
func (o *creating) body() (map[string]any, error) {
	switch {
	case o.from == "" || o.to == "":
		return nil, command.Usagef("--from and --to are required")
	case o.cron != "" && o.interval != 0:
		return nil, command.Usagef("either --cron or --interval can be given")
	case o.interval < 0 || o.interval%time.Second != 0:
		return nil, command.Usagef("--interval %s is no positive number of whole seconds", o.interval)
	}
	body := map[string]any{"from": o.from, "to": o.to, "max_concurrency": o.concurrency, "dry_run": o.dry}
	if o.cron != "" {
		body["cron_expression"] = o.cron
	}
	if o.interval > 0 {
		body["interval_seconds"] = int64(o.interval / time.Second)
	}
	if o.environment != "" {
		body["environment"] = o.environment
	}
	return body, nil
}
