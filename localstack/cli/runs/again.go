package runs

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

func retryCommand(s *session.Session) *cobra.Command {
	var failed, latest, watching bool
	c := &cobra.Command{
		Use:   "retry RUN",
		Short: "Retry a run with its parameters, completely or from its failed tasks",
		Long: "Retries a run with its parameters. --failed reuses the tasks that succeeded. --latest takes the version\n" +
			"that the run's deployment points to now, or else the one registered last. " + naming,
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			id, err := find(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			version, old := "", client.Run{}
			if latest {
				if version, old, err = latestVersion(c, api, id); err != nil {
					return err
				}
			}
			if latest && !failed {
				o := starting{watch: watching}
				return o.start(c, s, api, client.RunRequest{
					FlowName: old.FlowName, FlowVersion: version, Environment: old.Environment,
					ExecutionMode: old.ExecutionMode, Parameters: old.Parameters,
				})
			}
			target := path(id, "retry")
			if failed {
				target = path(id, "retry-from-failed")
			}
			if version != "" {
				target += "?" + url.Values{"flow_version": {version}}.Encode()
			}
			var answer json.RawMessage
			if err := api.Do(c.Context(), http.MethodPost, target, nil, &answer); err != nil {
				return err
			}
			if err := reused(c, s, answer, version); err != nil {
				return err
			}
			return started(c, s, api, answer, watching)
		},
	}
	f := c.Flags()
	f.BoolVar(&failed, "failed", false, "reuse what succeeded")
	f.BoolVar(&latest, "latest", false, "with the code as it is deployed now")
	f.BoolVarP(&watching, "watch", "w", false, "show its tasks until it ends, and exit by its outcome")
	return c
}

// latestVersion returns the flow version that a run's deployment points to, or else the newest
// one, and the run.
func latestVersion(c *cobra.Command, api *client.Client, id string) (version string, run client.Run, err error) {
	if run, err = api.Run(c.Context(), id); err != nil {
		return "", run, err
	}
	if run.Deployment != "" {
		var d struct {
			FlowName    string `json:"flow_name"`
			FlowVersion string `json:"flow_version"`
		}
		err := api.Do(c.Context(), http.MethodGet, "/deployments/"+url.PathEscape(run.Deployment), nil, &d)
		if err == nil && d.FlowName == run.FlowName {
			return d.FlowVersion, run, nil
		}
		var refused *client.Error
		if err != nil && (!errors.As(err, &refused) || refused.Status != http.StatusNotFound) {
			return "", run, err
		}
	}
	_, version, err = flowSpec(c.Context(), api, run.FlowName, "")
	return version, run, err
}

// reused prints how many tasks a retry reuses. It returns an error if the server
// started another version than requested.
func reused(c *cobra.Command, s *session.Session, answer json.RawMessage, version string) error {
	var run client.Run
	if err := json.Unmarshal(answer, &run); err != nil {
		return err
	}
	if version != "" && run.FlowVersion != "" && run.FlowVersion != version {
		return fmt.Errorf("the server made %s with version %s, not %s: it cannot retry with new code", run.Slug, run.FlowVersion, version)
	}
	if out := s.Out(c); !out.JSON && run.ReusedTaskCount > 0 {
		out.Printf("reuses %d of its tasks\n", run.ReusedTaskCount)
	}
	return nil
}

func cancelCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel RUN",
		Short: "Cancel a run",
		Long:  "Cancels a run. " + naming,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			id, err := find(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			return session.Send(c, s, api, http.MethodPost, path(id, "cancel"), nil, func(out *output.Printer, run client.Run) error {
				out.Printf("%s is cancelled\n", cmp.Or(run.Slug, id))
				return nil
			})
		},
	}
}
