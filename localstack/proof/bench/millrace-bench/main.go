// Command millrace-bench measures the cost and speed of the service on this
// machine and compares them with its budgets: see package bench.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"millrace/localstack/proof/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	o := options()
	if err := bench.Run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "millrace-bench:", err)
		os.Exit(1)
	}
}

// options parses the command line; an invalid one exits with 2.
func options() bench.Options {
	o := bench.Defaults
	o.Out = os.Stdout
	flag.StringVar(&o.Binary, "binary", "bin/millrace", "the server to measure")
	flag.Func("rows", "measure only rows whose names match this regular expression", func(s string) (err error) {
		o.Rows, err = regexp.Compile(s)
		return err
	})
	flag.StringVar(&o.Python, "python", "", "interpreter of Python tasks (default: the first fit python3 on PATH)")
	flag.StringVar(&o.Bootstrap, "bootstrap", "", "program of the deployed functions, built for this machine; not measured without")
	flag.StringVar(&o.Deployed, "deployed", "", "the same program as it is deployed, for its size; not measured without")
	flag.Func("history", "numbers of earlier runs at which reads are timed, separated by commas; 1000000 takes minutes and 4 GB", func(s string) error {
		o.History = nil
		for _, field := range strings.Split(s, ",") {
			n, err := strconv.Atoi(field)
			if err != nil {
				return err
			}
			o.History = append(o.History, n)
		}
		return nil
	})
	flag.DurationVar(&o.Load, "load", o.Load, "how long clients submit runs")
	flag.DurationVar(&o.Writes, "writes", o.Writes, "how long the table is written to, by one and by 16 writers")
	flag.DurationVar(&o.Idle, "idle", o.Idle, "how long the idle server is watched")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "millrace-bench: unexpected argument", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	return o
}
