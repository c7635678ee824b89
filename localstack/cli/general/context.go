package general

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// contextCommand has the contexts: servers that a user goes back to.
func contextCommand() *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "context",
		Short: "List the servers that you go back to, and choose one",
	}, contextListCommand(), contextUseCommand())
}

func contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List contexts; the one in use has a star",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, contexts, err := readContexts()
			if err != nil {
				return err
			}
			rows := [][]string{}
			for _, name := range slices.Sorted(maps.Keys(contexts.Contexts)) {
				star := ""
				if name == contexts.Current {
					star = "*"
				}
				rows = append(rows, []string{star, name, contexts.Contexts[name].URL})
			}
			return output.New(c.OutOrStdout(), false).Table([]string{"", "CONTEXT", "URL"}, rows)
		},
	}
}

func contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Choose the context of commands that are told of no server",
		Args:  command.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			file, contexts, err := readContexts()
			if err != nil {
				return err
			}
			if _, ok := contexts.Contexts[args[0]]; !ok {
				return &command.Error{Code: command.NotFound, Err: fmt.Errorf("there is no context %s in %s (see millrace context list)", args[0], file)}
			}
			contexts.Current = args[0]
			return contexts.Write(file)
		},
	}
}

func readContexts() (file string, contexts session.Contexts, err error) {
	if file, err = session.ConfigFile(); err != nil {
		return "", contexts, err
	}
	contexts, err = session.ReadContexts(file)
	return file, contexts, err
}
