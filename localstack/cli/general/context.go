package general

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/session"
)

// contextCommand returns the commands about contexts, which are stored servers.
func contextCommand(s *session.Session) *cobra.Command {
	return command.Group(&cobra.Command{
		Use:   "context",
		Short: "Store servers and their keys, and choose one of them",
	}, contextAddCommand(s), contextListCommand(), contextUseCommand(), contextRemoveCommand())
}

func contextAddCommand(s *session.Session) *cobra.Command {
	var org string
	c := &cobra.Command{
		Use:   "add NAME --url URL",
		Short: "Store a server with its API key, read from stdin or a prompt; the first context becomes the current one",
		Args:  command.Exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			name := args[0]
			if name == "" || s.URL == "" {
				return command.Usagef("a context has a name and a server: give --url")
			}
			file, contexts, err := session.UserContexts()
			if err != nil {
				return err
			}
			if _, ok := contexts.Contexts[name]; ok {
				return fmt.Errorf("there is a context %s already: remove it first (millrace context rm %s)", name, name)
			}
			address, err := (&session.Session{URL: s.URL}).Address()
			if err != nil {
				return command.Usage(err)
			}
			key := s.APIKey
			if key == "" {
				if key, err = session.ReadSecret(c.InOrStdin(), c.ErrOrStderr(), "API key of "+address+" (empty for none)"); err != nil {
					return err
				}
			}
			contexts.Contexts[name] = session.Context{URL: address, APIKey: key, Org: org}
			contexts.Current = cmp.Or(contexts.Current, name)
			return contexts.Write(file)
		},
	}
	c.Flags().StringVar(&org, "org", "", "workspace, of a user who is in several")
	return c
}

func contextRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a server and its key",
		Args:  command.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var removed session.Context
			err := change(args[0], func(contexts *session.Contexts) {
				removed = contexts.Contexts[args[0]]
				delete(contexts.Contexts, args[0])
				if contexts.Current == args[0] {
					contexts.Current = ""
				}
			})
			if err != nil {
				return err
			}
			if err := removed.RemoveToken(); err != nil {
				return fmt.Errorf("the context is removed, but not its token in the keyring: %w", err)
			}
			return nil
		},
	}
}

// change edits and stores the contexts, one of which has the name. Errors: exit code
// NotFound if none has.
func change(name string, edit func(*session.Contexts)) error {
	file, contexts, err := session.UserContexts()
	if err != nil {
		return err
	}
	if _, ok := contexts.Contexts[name]; !ok {
		return &command.Error{Code: command.NotFound, Err: fmt.Errorf("there is no context %s in %s (see millrace context list)", name, file)}
	}
	edit(&contexts)
	return contexts.Write(file)
}

func contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List contexts; the current one is marked with a star",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, contexts, err := session.UserContexts()
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
		Short: "Choose the context of commands that name no server",
		Args:  command.Exactly(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return change(args[0], func(contexts *session.Contexts) { contexts.Current = args[0] })
		},
	}
}
