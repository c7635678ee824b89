package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/runs/export"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// exportPatience is how long a request of an export may wait in all for a server that
// is busy or does not answer.
const exportPatience = 10 * time.Minute

// exporting holds the flags of runs export.
type exporting struct {
	flow, deployment, environment string
	statuses                      []string
	since, until                  string
	noLogs, noOutputs, verify     bool
}

func exportCommand(s *session.Session) *cobra.Command {
	var o exporting
	c := &cobra.Command{
		Use:   "export DIR",
		Short: "Copy finished runs with their logs and outputs to a directory",
		Long: `Copies the finished runs of the workspace to DIR, a folder for each UTC day on which they were created:

  0001-runs.ndjson.gz   a run a line, as GET /runs/{run_id} shows it
  0001-logs.ndjson.gz   an event a line, as GET /runs/{run_id}/logs shows it
  0001-outputs.zip      outputs that the record only refers to: RUN_ID/tasks/TASK[i].json, RUN_ID/result.json

Called again it adds, as 0002 and so on, what is new since: runs that have finished meanwhile. After an
interruption it goes on. manifest.json lists all files with their number of runs, events and outputs and
their SHA-256; a file gets its name when it is complete. --verify compares the files with the manifest,
without a server, and exits with 1 if one is missing or was changed.

The flags that select runs are the same in all calls for one directory; --since and --until may change.`,
		Example: `  millrace runs export backup --since 7d
  millrace runs export backup --verify`,
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.verify {
				return verifyExport(c, s.Out(c), args[0])
			}
			e, err := o.export(args[0], time.Now())
			if err != nil {
				return err
			}
			return runExport(c, s, e)
		},
	}
	f := c.Flags()
	f.StringVar(&o.flow, "flow", "", "only runs of this flow")
	f.StringVar(&o.deployment, "deployment", "", "only runs of this deployment")
	f.StringVar(&o.environment, "env", "", "only runs in this environment")
	f.StringSliceVar(&o.statuses, "status", nil, "only runs that ended with it, such as FAILED; repeat for more (default: all that have ended)")
	f.StringVar(&o.since, "since", "", "only runs made since: a duration such as 90m or 7d, or a time in RFC 3339 (default: all that the server keeps)")
	f.StringVar(&o.until, "until", "", "only runs made until then, likewise")
	f.BoolVar(&o.noLogs, "no-logs", false, "leave the logs out")
	f.BoolVar(&o.noOutputs, "no-outputs", false, "leave out outputs that are too large for the records")
	f.BoolVar(&o.verify, "verify", false, "compare the files with the manifest instead")
	return c
}

// export returns the export that the flags ask for.
func (o *exporting) export(dir string, now time.Time) (*export.Export, error) {
	e := &export.Export{Dir: dir, Now: time.Now, Selection: export.Selection{
		Flow: o.flow, Environment: o.environment, Deployment: o.deployment, Logs: !o.noLogs, Outputs: !o.noOutputs,
	}}
	for _, status := range o.statuses {
		status = strings.ToUpper(status)
		if !(&client.Run{Status: status}).Ended() {
			return nil, command.Usagef("--status of an export is SUCCEEDED, FAILED, TIMED_OUT or CANCELLED, not %q", status)
		}
		e.Statuses = append(e.Statuses, status)
	}
	slices.Sort(e.Statuses)
	e.Statuses = slices.Compact(e.Statuses)
	for flag, to := range map[string]*time.Time{"since": &e.Since, "until": &e.Until} {
		text := map[string]string{"since": o.since, "until": o.until}[flag]
		if text == "" {
			continue
		}
		at, err := Since(text, now)
		if err != nil {
			return nil, command.Usagef("--%s: %w", flag, err)
		}
		*to = at
	}
	if !e.Until.IsZero() && e.Until.Before(e.Since) {
		return nil, command.Usagef("--until is before --since")
	}
	return e, nil
}

func runExport(c *cobra.Command, s *session.Session, e *export.Export) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	var me struct {
		Org string `json:"org_id"`
	}
	if err := api.Do(c.Context(), http.MethodGet, "/me", nil, &me); err != nil {
		return err
	}
	out := s.Out(c)
	api.Patience = session.Patience(c, exportPatience, nil)
	e.API, e.Server, e.Org = api, api.BaseURL, me.Org
	if !out.JSON {
		e.Done = func(day string, runs int) { out.Printf("%s: %d runs\n", day, runs) }
	}
	result, err := e.Run(c.Context())
	if _, mismatch := errors.AsType[*export.MismatchError](err); mismatch {
		return command.Usage(err)
	}
	if err != nil {
		return fmt.Errorf("the export stopped, the same command goes on from what was printed: %w", err)
	}
	if out.JSON {
		return out.Line(result)
	}
	out.Printf("%d runs, %d log events and %d large outputs exported to %s; %d runs were there already\n",
		result.Runs, result.Events, result.Outputs, e.Dir, result.Present)
	if result.Unfinished > 0 {
		out.Printf("%d runs are not finished: a later export adds them\n", result.Unfinished)
	}
	if result.Lost > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "%d outputs are no longer stored on the server\n", result.Lost)
	}
	return nil
}

func verifyExport(c *cobra.Command, out *output.Printer, dir string) error {
	v, err := export.Verify(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &command.Error{Code: command.NotFound, Err: fmt.Errorf("%s is not an export: %w", dir, err)}
	}
	if err != nil {
		return err
	}
	if out.JSON {
		data, err := json.Marshal(v)
		if err == nil {
			err = out.Value(data)
		}
		if err != nil {
			return err
		}
	} else {
		for _, fault := range v.Faults {
			fmt.Fprintln(c.ErrOrStderr(), fault)
		}
		out.Printf("%d runs, %d log events and %d large outputs of %d days, %d of them complete\n%s sha256:%s\n",
			v.Runs, v.Events, v.Outputs, v.Days, v.Complete, "manifest.json", v.Manifest)
	}
	if len(v.Faults) > 0 {
		return command.Exit(command.Failure)
	}
	return nil
}
