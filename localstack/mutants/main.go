// Command mutants checks the tests of the engine: it breaks the guards of its
// invariants one at a time, in a copy that the compiler is shown in place of the
// source, and demands that a test fails for each. A guard whose loss no test
// notices is a survivor; it is printed and the command fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"
)

func main() {
	only := flag.String("run", "", "break only the guards whose names match this regular expression")
	list := flag.Bool("list", false, "list the guards and break none")
	spare := flag.Bool("redundant", false, "break the redundant guards instead, which must all survive")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *list, *spare); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, list, spare bool) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	guards := all()
	if spare {
		guards = redundant()
	}
	guards = slices.DeleteFunc(guards, func(g Guard) bool { return !match.MatchString(g.Name) })
	if list {
		return print(guards)
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	b, err := newBench(root, suites)
	if err != nil {
		return err
	}
	defer b.close()
	began := time.Now()
	if err := b.whole(ctx, guards); err != nil {
		return err
	}
	wrong := 0
	for _, g := range guards {
		v, err := b.judge(ctx, g)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil { // it proves nothing, one way or the other
			wrong++
			fmt.Printf("ERROR     %s: %v\n", g.Name, err)
			continue
		}
		good := v.caught != spare
		if !good {
			wrong++
		}
		fmt.Println(v.line(g, good))
	}
	fmt.Printf("%d guards, %s\n", len(guards), time.Since(began).Round(time.Second))
	switch {
	case wrong > 0 && spare:
		return fmt.Errorf("%d of them are not redundant", wrong)
	case wrong > 0:
		return fmt.Errorf("no test fails for want of %d of them", wrong)
	}
	return nil
}

// print lists guards with what they see to.
func print(guards []Guard) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, g := range guards {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", g.Name, g.In, g.Holds, g.Tests.Run)
	}
	return w.Flush()
}
