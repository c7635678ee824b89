// Command mutants checks the tests of the engine: it breaks the guards of its
// invariants one at a time, in a compiler overlay, and requires that a test
// fails for each. A mutant that no test kills is a survivor; it is printed and
// the command fails.
//
// Guards are listed in guards.txt, redundant ones in redundant.txt. In the
// source a comment marks each, at the end of its line or on a line above, with
// the operator that breaks it: see [Guard], and apply for the operators.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	only := flag.String("run", "", "break only the guards whose names match this regular expression")
	list := flag.Bool("list", false, "list the guards and break none")
	spare := flag.Bool("redundant", false, "break the redundant guards instead, which must all survive")
	jobs := flag.Int("j", 2, "guards broken at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *jobs, *list, *spare); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, jobs int, list, spare bool) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	names := guardList
	if spare {
		names = redundantList
	}
	guards, err := guarded(root, names)
	if err != nil {
		return err
	}
	guards = slices.DeleteFunc(guards, func(g Guard) bool { return !match.MatchString(g.Name) })
	if list {
		return print(guards)
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
	for l := range b.judgeAll(ctx, guards, jobs, spare) {
		fmt.Println(l.text)
		if !l.good {
			wrong++
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
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

// line is the report on a guard.
type line struct {
	text string
	good bool
}

// judgeAll breaks the guards, several in parallel, and reports each as soon as
// it is judged.
func (b *bench) judgeAll(ctx context.Context, guards []Guard, jobs int, spare bool) <-chan line {
	lines := make(chan line)
	work := make(chan Guard)
	var wg sync.WaitGroup
	for range max(jobs, 1) {
		wg.Go(func() {
			for g := range work {
				v, err := b.judge(ctx, g)
				if err != nil { // it proves nothing
					lines <- line{fmt.Sprintf("ERROR     %s: %v", g.Name, err), false}
					continue
				}
				good := v.caught != spare
				lines <- line{v.line(g, good), good}
			}
		})
	}
	go func() {
		defer close(lines)
		for _, g := range guards {
			if ctx.Err() != nil {
				break
			}
			work <- g
		}
		close(work)
		wg.Wait()
	}()
	return lines
}

// print lists guards with what they ensure.
func print(guards []Guard) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, g := range guards {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", g.Name, g.Mark, g.Mark.Op, g.Tests.Run, g.Holds)
	}
	return w.Flush()
}
