package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// defaultTier is the tier of a run if neither the flow nor its tasks name one.
const defaultTier = "medium"

// starting holds the flags of run.
type starting struct {
	params                  []string
	file, environment, tier string
	watch, here             bool
}

func runCommand(s *session.Session) *cobra.Command {
	var o starting
	c := &cobra.Command{
		Use:   "run DEPLOYMENT | run FLOW@VERSION | run --local FLOW",
		Short: "Start a run",
		Long: "Starts a run of a deployment, or of a flow's version (latest for the newest).\nA parameter k=v is text if its type in the flow's schema is string, otherwise JSON.\n" +
			"With --local it runs on this machine, without a server: FLOW is flow.py, flow.py:name, or the name of a flow in\n" +
			"this folder. Its values are printed as JSON.",
		Args: command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if o.here {
				return o.local(c, args[0])
			}
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			request, err := o.request(c.Context(), c.InOrStdin(), api, args[0])
			if err != nil {
				return err
			}
			return o.start(c, s, api, request)
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&o.params, "param", "p", nil, "k=v of a parameter; repeat for more")
	f.StringVar(&o.file, "params", "", "file of parameters, a JSON object; - for stdin")
	f.StringVar(&o.environment, "env", "", "environment (default: the deployment's)")
	f.StringVar(&o.tier, "tier", "", "nano, micro, small, medium, large or xlarge, of all its tasks")
	f.BoolVarP(&o.watch, "watch", "w", false, "show its tasks until it ends, and exit by its outcome")
	f.BoolVar(&o.here, "local", false, "on this machine, without a server")
	return c
}

func (o *starting) start(c *cobra.Command, s *session.Session, api *client.Client, request client.RunRequest) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var answer json.RawMessage
	if err := api.Do(c.Context(), http.MethodPost, "/runs", json.RawMessage(body), &answer); err != nil {
		return err
	}
	return started(c, s, api, answer, o.watch)
}

// started prints a run that was just started, and watches it if watching.
func started(c *cobra.Command, s *session.Session, api *client.Client, answer json.RawMessage, watching bool) error {
	var run client.Run
	if err := json.Unmarshal(answer, &run); err != nil {
		return err
	}
	out := s.Out(c)
	switch {
	case out.JSON && !watching:
		return out.Value(answer)
	case !out.JSON:
		out.Printf("%s %s  %s\n", run.FlowName, run.FlowVersion, run.Slug)
	}
	if !watching {
		return nil
	}
	return watch(c, s, api, run.RunID)
}

// request returns the requested run.
func (o *starting) request(ctx context.Context, stdin io.Reader, api *client.Client, name string) (client.RunRequest, error) {
	request := client.RunRequest{Environment: o.environment, ExecutionMode: o.tier, Parameters: map[string]any{}}
	flow, version, exact := strings.Cut(name, "@")
	if !exact {
		request.Deployment = name
		var d struct {
			FlowName    string `json:"flow_name"`
			FlowVersion string `json:"flow_version"`
		}
		if err := api.Do(ctx, http.MethodGet, "/deployments/"+url.PathEscape(name), nil, &d); err != nil {
			return request, fmt.Errorf("%s: %w", name, err)
		}
		flow, version = d.FlowName, d.FlowVersion
	}
	spec, version, err := flowSpec(ctx, api, flow, version)
	if err != nil {
		return request, fmt.Errorf("%s: %w", name, err)
	}
	if exact {
		request.FlowName, request.FlowVersion = flow, version
		if request.ExecutionMode == "" && !spec.namesTier() {
			request.ExecutionMode = defaultTier
		}
	}
	return request, o.parameters(stdin, spec, request.Parameters)
}

// spec is the part of a flow_spec that is read.
type spec struct {
	Parameters struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	} `json:"parameters"`
	Tasks []struct {
		Tier string `json:"tier"`
	} `json:"tasks"`
}

func (s *spec) namesTier() bool {
	for _, t := range s.Tasks {
		if t.Tier != "" {
			return true
		}
	}
	return false
}

func flowSpec(ctx context.Context, api *client.Client, flow, version string) (spec, string, error) {
	if version == "" {
		version = "latest"
	}
	var detail struct {
		FlowVersion string `json:"flow_version"`
		FlowSpec    spec   `json:"flow_spec"`
	}
	err := api.Do(ctx, http.MethodGet, "/flows/"+url.PathEscape(flow)+"/"+url.PathEscape(version), nil, &detail)
	return detail.FlowSpec, detail.FlowVersion, err
}

// Parameters parses k=v parameters of a flow by the types in the schema of its
// latest version.
func Parameters(ctx context.Context, api *client.Client, flow string, given []string) (map[string]any, error) {
	spec, _, err := flowSpec(ctx, api, flow, "")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flow, err)
	}
	out := map[string]any{}
	return out, (&starting{params: given}).parameters(nil, spec, out)
}

// parameters reads the parameters of the file, then those of the command line.
func (o *starting) parameters(stdin io.Reader, s spec, into map[string]any) error {
	if o.file != "" {
		file := stdin
		if o.file != "-" {
			f, err := os.Open(o.file)
			if err != nil {
				return command.Usagef("--params: %w", err)
			}
			defer f.Close()
			file = f
		}
		decoder := json.NewDecoder(file)
		decoder.UseNumber()
		err := decoder.Decode(&into)
		if other, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return command.Usagef("--params %s is a JSON %s, not an object of parameters", o.file, other.Value)
		}
		if err == nil && into == nil {
			err = errors.New("it is null")
		}
		if err == nil && decoder.More() {
			err = errors.New("more follows its end")
		}
		if err != nil {
			return command.Usagef("--params %s is no JSON object: %w", o.file, err)
		}
	}
	for _, text := range o.params {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return command.Usagef("-p takes k=v, not %q", text)
		}
		into[name] = parameter(value, s.Parameters.Properties[name].Type)
	}
	return nil
}

// parameter parses a value of the command line by the type in its schema: as text if
// that is string, otherwise as JSON, or as text if it is not valid JSON.
func parameter(value string, kind any) any {
	if kind == "string" || !json.Valid([]byte(value)) {
		return value
	}
	return json.RawMessage(value)
}
