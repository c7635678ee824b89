// Package general has the commands api, context and doctor.
package general

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
)

// Commands returns the commands of this package for a binary with a version.
func Commands(s *session.Session, version string) []*cobra.Command {
	return []*cobra.Command{apiCommand(s), doctorCommand(s, version), contextCommand(s)}
}

// calling holds the flags of api.
type calling struct {
	fields   []string
	input    string
	paginate bool
}

func apiCommand(s *session.Session) *cobra.Command {
	var o calling
	c := &cobra.Command{
		Use:   "api METHOD PATH",
		Short: "Call any operation of the API, as /docs of the server describes them",
		Long: "Calls any operation of the API. A field k=v goes into the query of a GET or DELETE and into the body of\n" +
			"all else, as JSON where it is JSON: -f n=3 is a number, -f 'n=\"3\"' is text.",
		Example: "  millrace api GET /runs -f limit=3\n  millrace api POST /runs -f deployment=daily -f 'parameters={\"day\": \"2026-01-31\"}'",
		Args:    command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			method := strings.ToUpper(args[0])
			target, body, err := o.request(method, args[1], c.InOrStdin())
			if err != nil {
				return err
			}
			api, err := s.Client()
			if err != nil {
				return err
			}
			out := s.Out(c)
			for {
				var reader io.Reader
				if body != nil {
					reader = bytes.NewReader(body)
				}
				res, err := api.Send(c.Context(), method, target.String(), nil, reader)
				if err != nil {
					return err
				}
				data, err := io.ReadAll(res.Body)
				_ = res.Body.Close() // it was read completely
				if err != nil {
					return err
				}
				if !json.Valid(data) {
					return out.Raw(data)
				}
				if err := out.Value(data); err != nil {
					return err
				}
				var page struct {
					NextToken string `json:"next_token"`
				}
				if !o.paginate {
					return nil
				}
				// Only objects have pages, and a token if there are more.
				if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
					return nil
				}
				if err := json.Unmarshal(data, &page); err != nil || page.NextToken == "" {
					return err
				}
				query := target.Query()
				query.Set("next_token", page.NextToken)
				target.RawQuery = query.Encode()
			}
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&o.fields, "field", "f", nil, "k=v; repeat for more")
	f.StringVar(&o.input, "input", "", "file of the body; - for stdin")
	f.BoolVar(&o.paginate, "paginate", false, "go on with next_token to the end, a page a line")
	return c
}

// request returns the URL, relative to the server's, and the body, nil for none.
func (o *calling) request(method, path string, stdin io.Reader) (target *url.URL, body []byte, err error) {
	target, err = url.Parse("/" + strings.TrimPrefix(path, "/"))
	if err != nil || target.Host != "" {
		return nil, nil, command.Usagef("%q is no path, such as /runs", path)
	}
	inQuery := method == http.MethodGet || method == http.MethodDelete
	query, fields := target.Query(), map[string]json.RawMessage{}
	for _, text := range o.fields {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, nil, command.Usagef("-f takes k=v, not %q", text)
		}
		query.Set(name, value)
		if fields[name] = json.RawMessage(value); !json.Valid(fields[name]) {
			fields[name], _ = json.Marshal(value) // strings can always be marshalled
		}
	}
	switch {
	case o.input != "" && len(fields) > 0 && !inQuery:
		return nil, nil, command.Usagef("--input is the whole body: give no fields with it")
	case o.input == "-":
		body, err = io.ReadAll(stdin)
	case o.input != "":
		body, err = os.ReadFile(o.input)
	case !inQuery && len(fields) > 0:
		body, err = json.Marshal(fields)
	}
	if inQuery {
		target.RawQuery = query.Encode()
	}
	return target, body, err
}
