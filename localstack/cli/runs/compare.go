package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// comparison is the part of GET /runs/compare that is printed.
type comparison struct {
	Status     struct{ A, B string } `json:"status"`
	Delta      *int64                `json:"duration_delta_ms"`
	Parameters struct {
		Added   map[string]json.RawMessage `json:"added"`
		Removed map[string]json.RawMessage `json:"removed"`
		Changed map[string]json.RawMessage `json:"changed"`
	} `json:"parameters"`
	Tasks []struct {
		TaskName string    `json:"task_name"`
		A        *taskSide `json:"a"`
		B        *taskSide `json:"b"`
		Delta    *int64    `json:"duration_delta_ms"`
		Changed  bool      `json:"status_changed"`
	} `json:"tasks"`
}

type taskSide struct {
	Status string `json:"status"`
}

func compareCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two runs: status, time, parameters, tasks",
		Long:  "Compares two runs. " + naming,
		Args:  command.Exactly(2),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Client()
			if err != nil {
				return err
			}
			query := url.Values{}
			for i, name := range []string{"run_a", "run_b"} {
				id, err := find(c.Context(), api, args[i])
				if err != nil {
					return err
				}
				query.Set(name, id)
			}
			return session.Send(c, s, api, http.MethodGet, "/runs/compare?"+query.Encode(), nil, func(out *output.Printer, compared comparison) error {
				return compared.print(out)
			})
		},
	}
}

func (c *comparison) print(out *output.Printer) error {
	out.Printf("%s -> %s  %s\n", out.Colored(c.Status.A), out.Colored(c.Status.B), delta(c.Delta))
	for _, p := range []struct {
		what string
		of   map[string]json.RawMessage
	}{{"+", c.Parameters.Added}, {"-", c.Parameters.Removed}, {"~", c.Parameters.Changed}} {
		for _, name := range slices.Sorted(maps.Keys(p.of)) {
			out.Printf("%s %s %s\n", p.what, name, p.of[name])
		}
	}
	rows := make([][]string, 0, len(c.Tasks))
	for _, t := range c.Tasks {
		rows = append(rows, []string{t.TaskName, t.A.text(), t.B.text(), delta(t.Delta)})
	}
	return out.Table([]string{"TASK", "A", "B", "TIME"}, rows)
}

func (t *taskSide) text() string {
	if t == nil {
		return "-"
	}
	return t.Status
}

func delta(ms *int64) string {
	switch {
	case ms == nil:
		return ""
	case *ms < 0:
		return "-" + output.Duration(-*ms)
	}
	return fmt.Sprint("+", output.Duration(*ms))
}
