package flows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// defaultTier is the tier of a new deployment if none is given.
const defaultTier = "medium"

// deploying holds the flags of deploy.
type deploying struct {
	name, environment, version, tier, schedule, timezone string
	check, scheduled                                     bool // scheduled: schedule is given, if empty
}

func deployCommand(s *session.Session) *cobra.Command {
	var o deploying
	c := &cobra.Command{
		Use:   "deploy [FILE or DIR]",
		Short: "Upload the flows of a Python file or folder, and deploy each under its name",
		Long: "Imports a Python file, or the files of a folder (default: this one) that import millrace; packs the folder,\n" +
			"uploads it, and registers and deploys each flow. Where the folder is clean in git the version is git's,\n" +
			"else a hash of the content. What requirements.txt names is packed with it, for the server's platform and Python.\n" +
			"Settings of a deployment that no flag names are left unchanged.",
		Args: command.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			o.scheduled = c.Flags().Changed("schedule")
			path := "."
			if len(args) == 1 {
				path = args[0]
			}
			server := s.Changing
			if o.check {
				server = func(*cobra.Command) (*client.Client, error) { return s.Client() }
			}
			api, err := server(c)
			if err != nil {
				return err
			}
			on, err := RuntimeOf(c.Context(), api)
			if err != nil {
				return err
			}
			collected, err := collect(c.Context(), path, on, c.ErrOrStderr())
			if err != nil {
				return err
			}
			if o.name != "" && len(collected.Flows) > 1 {
				return command.Usagef("--name is of one deployment, and %s has %d flows: name one file", path, len(collected.Flows))
			}
			if o.version == "" {
				o.version = collected.version(c.Context())
			}
			return o.all(c, s.Out(c), api, collected)
		},
	}
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "deployment (default: the flow's name)")
	f.StringVar(&o.environment, "env", "", "environment (default: the deployment's, or default)")
	f.StringVar(&o.version, "version", "", "version of the flow (default: of git, or of the content)")
	f.StringVar(&o.tier, "tier", "", "nano, micro, small, medium (of a new deployment), large or xlarge")
	f.StringVar(&o.schedule, "schedule", "", "cron expression: the deployment starts runs by it; empty for no more")
	f.StringVar(&o.timezone, "timezone", "", "IANA zone of the schedule (default: the deployment's, or UTC)")
	f.BoolVar(&o.check, "check", false, "import, pack, and have the server check flows and deployments; upload nothing")
	return c
}

// all deploys each flow. With --check it checks each, and the error joins those of all
// invalid flows.
func (o *deploying) all(c *cobra.Command, out *output.Printer, api *client.Client, collected *Code) error {
	var errs []error
	for _, f := range collected.Flows {
		if o.check {
			errs = append(errs, o.checked(c, out, api, collected, f))
			continue
		}
		upload := client.Upload{FlowName: f.Name, FlowVersion: o.version, DeploymentName: cmp.Or(o.name, f.Name), Spec: f.Spec, Zip: collected.Zip}
		if err := o.one(c, out, api, upload, collected.Files); err != nil {
			return f.describe(o.version, err)
		}
	}
	return errors.Join(errs...)
}

// checked asks the server whether it would register a flow and deploy it.
func (o *deploying) checked(c *cobra.Command, out *output.Printer, api *client.Client, collected *Code, f Flow) error {
	name := cmp.Or(o.name, f.Name)
	before, err := current(c.Context(), api, name)
	if err != nil {
		return err
	}
	body := o.settings(before)
	body["flow_name"], body["flow_version"], body["flow_spec"], body["dry_run"], body["deployment_name"] = f.Name, o.version, f.Spec, true, name
	var raw json.RawMessage
	if err := api.Do(c.Context(), http.MethodPost, "/flows", body, &raw); err != nil {
		return f.describe(o.version, err)
	}
	if out.JSON {
		return out.Value(raw)
	}
	var answer struct {
		Deployment client.Deployed `json:"deployment"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return err
	}
	planned := answer.Deployment
	out.Printf("%s %s (%d files, %s): the server would take it; deployment %s: %s\n",
		f.Name, o.version, collected.Files, size(len(collected.Zip)), name, versions(before, planned))
	if planned.EnvironmentCreated {
		out.Printf("the environment %s is new: it would be made for this deployment\n", planned.Environment)
	}
	if planned.NextRunEpoch != 0 {
		out.Printf("next run by its schedule: %s\n", nextRun(out, planned))
	}
	return nil
}

// versions tells how a deployment's version changes.
func versions(before deployment, after client.Deployed) string {
	if after.DeploymentVersion == before.Version {
		return fmt.Sprintf("%d, as it was", before.Version)
	}
	return fmt.Sprintf("%d -> %d", before.Version, after.DeploymentVersion)
}

func (o *deploying) one(c *cobra.Command, out *output.Printer, api *client.Client, upload client.Upload, files int) error {
	before, err := current(c.Context(), api, upload.DeploymentName)
	if err != nil {
		return err
	}
	upload.Settings = o.settings(before)
	if out.Terminal && !out.JSON {
		upload.Progress = func(sent int) { out.Replace(size(sent) + " of " + size(len(upload.Zip))) }
	}
	made, err := api.Upload(c.Context(), upload)
	if upload.Progress != nil {
		out.Replace("")
	}
	if err != nil {
		return err
	}
	if out.JSON {
		return out.Line(made)
	}
	out.Printf("%s %s (%d files, %s); deployment %s: %s\n",
		made.FlowName, made.FlowVersion, files, size(len(upload.Zip)), made.DeploymentName, versions(before, made))
	if made.EnvironmentCreated {
		out.Printf("the environment %s is new: it was made for this deployment\n", made.Environment)
	}
	if made.ScheduleID != "" {
		out.Printf("schedule %s, next run: %s\n", made.ScheduleID, nextRun(out, made))
	}
	return nil
}

// nextRun is the time of the next run by the deployment's schedule.
func nextRun(out *output.Printer, made client.Deployed) string {
	if made.NextRunEpoch == 0 {
		return "none while it is disabled"
	}
	return out.Time(time.Unix(made.NextRunEpoch, 0))
}

// current returns a deployment; its version is 0 if it does not exist.
func current(ctx context.Context, api *client.Client, name string) (deployment, error) {
	var d deployment
	err := api.Do(ctx, http.MethodGet, "/deployments/"+url.PathEscape(name), nil, &d)
	if apiErr, ok := errors.AsType[*client.Error](err); ok && apiErr.Status == http.StatusNotFound {
		err = nil
	}
	return d, err
}

// RuntimeOf returns the runtime of a server's Python tasks; the zero Runtime if the
// server does not report it, or not to this caller.
func RuntimeOf(ctx context.Context, api *client.Client) (Runtime, error) {
	var backends struct {
		Items []struct {
			Name    string  `json:"name"`
			Runtime Runtime `json:"runtime"`
		} `json:"items"`
	}
	err := api.Do(ctx, http.MethodGet, "/backends", nil, &backends)
	if apiErr, ok := errors.AsType[*client.Error](err); ok && (apiErr.Status == http.StatusForbidden || apiErr.Status == http.StatusNotFound) {
		return Runtime{}, nil
	}
	for _, b := range backends.Items {
		if b.Runtime.Platform != "" && b.Runtime.Python != "" {
			return b.Runtime, err
		}
	}
	return Runtime{}, err
}

// Deploy registers a flow of the code under a version and deploys it under the flow's
// name. It returns the deployment.
func (c *Code) Deploy(ctx context.Context, api *client.Client, f Flow, version string) (client.Deployed, error) {
	before, err := current(ctx, api, f.Name)
	if err != nil {
		return client.Deployed{}, err
	}
	return api.Upload(ctx, client.Upload{
		FlowName: f.Name, FlowVersion: version, DeploymentName: f.Name, Spec: f.Spec, Zip: c.Zip,
		Settings: (&deploying{}).settings(before),
	})
}

// settings returns the settings that flags name, and the tier of a new deployment.
func (o *deploying) settings(before deployment) map[string]any {
	settings := map[string]any{}
	tier := o.tier
	if tier == "" && before.Version == 0 {
		tier = defaultTier
	}
	for name, value := range map[string]string{
		"environment": o.environment, "execution_mode": tier, "timezone": o.timezone,
	} {
		if value != "" {
			settings[name] = value
		}
	}
	if o.scheduled {
		settings["schedule"] = o.schedule
	}
	return settings
}

// size formats a number of bytes.
func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}
