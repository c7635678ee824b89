package runs

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

func getCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "get RUN",
		Short: "Show a run with the attempts of its tasks",
		Long:  "Shows a run with the attempts of its tasks. " + naming,
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			api, err := s.Client()
			if err != nil {
				return err
			}
			id, err := find(c.Context(), api, args[0])
			if err != nil {
				return err
			}
			return session.Send(c, s, api, http.MethodGet, path(id), nil, func(out *output.Printer, run client.Run) error {
				out.Printf("%s %s  %s  %s  %s %s\n", run.FlowName, run.FlowVersion, run.Slug, run.RunID, out.Colored(run.Status), took(run))
				return printTasks(out, run)
			})
		},
	}
}

// naming describes how commands name runs.
const naming = "RUN is its id, its slug, the slug's last digits, or last for your newest."

func printTasks(out *output.Printer, run client.Run) error {
	rows := make([][]string, 0, len(run.TaskRuns))
	for _, t := range run.TaskRuns {
		duration := ""
		if t.DurationMS != nil {
			duration = output.Duration(*t.DurationMS)
		}
		rows = append(rows, []string{label(t), fmt.Sprint(t.Attempt), t.Status, duration, reason(t)})
	}
	if len(rows) > 0 {
		if err := out.Table([]string{"TASK", "ATTEMPT", "STATUS", "TOOK", "WHY"}, rows); err != nil {
			return err
		}
	}
	if run.ErrorMessage != "" {
		out.Printf("%s\n", run.ErrorMessage)
	}
	return nil
}

// label returns a task's name, with the index of a mapped instance.
func label(t client.TaskRun) string {
	if t.MapIndex != nil {
		return fmt.Sprintf("%s[%d]", t.TaskName, *t.MapIndex)
	}
	return t.TaskName
}

func reason(t client.TaskRun) string {
	if t.ErrorMessage != "" {
		return t.ErrorMessage
	}
	return t.Reason
}
