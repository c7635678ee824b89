package serving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/dev"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/python"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
	"millrace/localstack/embedded/server"
)

func devCommand(version string) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "dev [DIR]",
		Short: "Serve, and deploy the flows of a folder at each save",
		Long: "Serves as serve does, with the data in DIR/.millrace, and deploys the flows of the folder (default: this one)\n" +
			"now and at each save, as version dev-HASH of the content. Errors are shown with file and line.\n" +
			"Keys on a terminal: " + dev.Help + ".",
		Args: command.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := filepath.Abs(append(args, ".")[0])
			if err != nil {
				return err
			}
			if info, err := os.Stat(dir); err != nil {
				return err
			} else if !info.IsDir() {
				return command.Usagef("%s is not a folder", dir)
			}
			cfg, err := o.config(version)
			if err != nil {
				return err
			}
			if !c.Flags().Changed("data") {
				cfg.Dir = filepath.Join(dir, defaultData)
			}
			return develop(c, cfg, dir)
		},
	}
	o.flags(c.Flags())
	return c
}

func develop(c *cobra.Command, cfg server.Config, dir string) error {
	library, err := python.NewLibrary(cfg.Python)
	if err != nil {
		return err
	}
	defer func() { _ = library.Remove() }() // a temporary folder
	s, wait, err := open(c, cfg)
	if err != nil {
		return err
	}
	defer wait()
	ctx, stop := context.WithCancel(c.Context())
	defer stop()
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- s.Serve(ctx)
	}()
	keys, restore := dev.Keys(os.Stdin)
	if keys != nil {
		fmt.Fprintf(c.OutOrStdout(), "  keys         %s\n", dev.Help)
	}
	credentials := s.Credentials()
	err = dev.Run(ctx, dev.Options{
		Dir: dir, API: &client.Client{BaseURL: credentials.BaseURL, Token: credentials.APIKey}, Library: library,
		Out: output.New(c.OutOrStdout(), false), Keys: keys, Open: session.Browse,
	})
	// The terminal is restored before waiting for tasks, where a second interrupt
	// terminates the process.
	restore()
	stop()
	return errors.Join(err, <-served)
}
