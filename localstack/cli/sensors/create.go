package sensors

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// creating has the flags of create.
type creating struct {
	kind, flow         string
	params, config     []string
	paramsFile, inFile string
	signed             bool
}

func createCommand(s *session.Session) *cobra.Command {
	o := &creating{}
	c := &cobra.Command{
		Use:   "create NAME --type TYPE --flow FLOW",
		Short: "Create a sensor; the URL of a webhook is printed",
		Long: `Creates a sensor, which starts runs of the latest registered version of a flow:

  webhook    for each request of the URL that is printed
  polling    when the answer of a URL matches: -c url=… -c interval_seconds=60 -c json_path=status -c expected_value=done
  objstore   for each object stored in a bucket: -c bucket=landing -c prefix=in/ -c suffix=.csv

Values of -p and -c are JSON, or else text. Write secret values, such as headers, to a file for --config.
With --signed, requests of a webhook need a signature; its secret is read from stdin or a prompt.`,
		Example: "  millrace sensors create orders --type objstore --flow load -c bucket=landing -c suffix=.csv",
		Args:    command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			body, err := o.body(c, args[0])
			if err != nil {
				return err
			}
			api, err := s.Changing(c)
			if err != nil {
				return err
			}
			return session.Send(c, s, api, http.MethodPost, "/sensors", body, func(out *output.Printer, v sensor) error {
				out.Printf("%s is created\n", v.ID)
				return printURL(out, s, v)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.kind, "type", "", "webhook, polling or objstore")
	f.StringVar(&o.flow, "flow", "", "flow of the runs")
	f.StringArrayVarP(&o.params, "param", "p", nil, "k=v of a default parameter; repeat for more")
	f.StringVar(&o.paramsFile, "params", "", "file of default parameters, a JSON object; - for stdin")
	f.StringArrayVarP(&o.config, "set", "c", nil, "k=v of the sensor's config; repeat for more")
	f.StringVar(&o.inFile, "config", "", "file of the sensor's config, a JSON object; - for stdin")
	f.BoolVar(&o.signed, "signed", false, "require a signature (HMAC-SHA-256 of the body, as GitHub sends) of a webhook's requests")
	return c
}

// body returns the body of the request.
func (o *creating) body(c *cobra.Command, name string) (map[string]any, error) {
	if o.kind == "" || o.flow == "" {
		return nil, command.Usagef("--type and --flow are required")
	}
	if o.paramsFile == "-" && o.inFile == "-" || o.signed && (o.paramsFile == "-" || o.inFile == "-") {
		return nil, command.Usagef("only one of --params, --config and --signed can read stdin")
	}
	params, err := object(c.InOrStdin(), "--params", o.paramsFile, "-p", o.params)
	if err != nil {
		return nil, err
	}
	config, err := object(c.InOrStdin(), "--config", o.inFile, "-c", o.config)
	if err != nil {
		return nil, err
	}
	if o.signed {
		secret, err := session.ReadSecret(c.InOrStdin(), c.ErrOrStderr(), "secret of the signatures")
		if err != nil {
			return nil, err
		}
		config["hmac_secret"] = secret
	}
	return map[string]any{"name": name, "sensor_type": o.kind, "flow_name": o.flow, "flow_params_json": params, "config_json": config}, nil
}

// object returns the object in a file, with the pairs of the command line in it.
func object(stdin io.Reader, fileFlag, file, pairFlag string, pairs []string) (map[string]any, error) {
	out := map[string]any{}
	if file != "" {
		data, err := readFile(stdin, file)
		if err != nil {
			return nil, command.Usagef("%s: %w", fileFlag, err)
		}
		fields := map[string]json.RawMessage{}
		if err := json.Unmarshal(data, &fields); err != nil {
			return nil, command.Usagef("%s %s is no JSON object: %w", fileFlag, file, err)
		}
		for name, value := range fields {
			out[name] = value
		}
	}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, command.Usagef("%s takes k=v, not %q", pairFlag, pair)
		}
		out[name] = value
		if json.Valid([]byte(value)) {
			out[name] = json.RawMessage(value)
		}
	}
	return out, nil
}

func readFile(stdin io.Reader, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return data, nil
}
