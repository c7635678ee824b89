package main

import (
	"fmt"
	"os"
	"regexp"

	"github.com/spf13/cobra"

	"millrace/localstack/bench"
)

func benchCommand() *cobra.Command {
	o := bench.Defaults
	var rows string
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure what the service costs and how fast it is on this machine, and hold it to its budgets",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.Rows, err = regexp.Compile(rows); err != nil {
				return usageError{fmt.Errorf("--rows: %w", err)}
			}
			if o.Binary, err = os.Executable(); err != nil {
				return err
			}
			o.Out = c.OutOrStdout()
			if err := bench.Run(c.Context(), o); err != nil {
				return fmt.Errorf("bench: %w", err)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&rows, "rows", "", "measure only rows whose names match this regular expression")
	f.StringVar(&o.Python, "python", "", "interpreter of Python tasks (default: the first fit python3 on PATH)")
	f.StringVar(&o.Bootstrap, "bootstrap", "", "program of the deployed functions, built for this machine; not measured without")
	f.StringVar(&o.Deployed, "deployed", "", "the same program as it is deployed, for its size; not measured without")
	f.IntSliceVar(&o.History, "history", o.History, "numbers of earlier runs at which reads are timed; 1000000 takes minutes and 4 GB")
	f.DurationVar(&o.Load, "load", o.Load, "how long clients submit runs")
	f.DurationVar(&o.Idle, "idle", o.Idle, "how long the idle server is watched")
	return c
}
