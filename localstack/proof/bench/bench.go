// Package bench measures the cost and speed of the service and compares them
// with its budgets. Counts, such as units of the table and requests to the
// queues, are the same on every machine and may not rise above the golden file.
// Times depend on the machine and are only reported.
//
// Times are measured by a client over HTTP, on the real server in a separate
// process with a new data directory; both share the machine.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Options select what to measure, and how.
type Options struct {
	Binary string         // the server, millrace
	Rows   *regexp.Regexp // names of the rows to measure; nil means all
	Python string         // interpreter of Python tasks; "" means the server's default
	// Bootstrap is the program of the deployed functions, for this machine;
	// Deployed is the same for arm64, as it is deployed. "" skips their rows.
	Bootstrap, Deployed string
	History             []int         // numbers of runs for which reads are timed
	Load                time.Duration // how long 16 clients submit runs
	Writes              time.Duration // how long the table is written to, by one writer and by 16
	Idle                time.Duration // how long the idle server is observed
	Out                 io.Writer
}

// Defaults are the default options.
var Defaults = Options{History: []int{1000, 100_000}, Load: 5 * time.Second, Writes: 6 * time.Second, Idle: 30 * time.Second}

// ErrRose means that a count is above the golden file.
var ErrRose = errors.New("counts rose")

// group measures rows with a common set-up.
type group struct {
	rows []string
	run  func(context.Context, *bench) error
}

// bench is one run of the benchmark.
type bench struct {
	Options
	golden []Count
	dir    string // for data directories
	table  *printer
	rose   []string
	fell   []string
}

// Run measures, and writes the table row by row. Errors: ErrRose, and failed
// measurements. An exceeded budget is not an error.
func Run(ctx context.Context, o Options) (err error) {
	for _, path := range []*string{&o.Binary, &o.Bootstrap, &o.Deployed} { // counting changes the working directory
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	b := &bench{Options: o, table: &printer{out: o.Out}}
	if b.golden, err = Golden(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "millrace-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	var failed []error
	for _, g := range b.groups() {
		if !slices.ContainsFunc(g.rows, b.wanted) {
			continue
		}
		if err := g.run(ctx, b); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", g.rows[0], err))
			fmt.Fprintf(o.Out, "%s: FAILED: %v\n", g.rows[0], err)
		}
		if ctx.Err() != nil {
			return errors.Join(failed...)
		}
	}
	for _, text := range b.fell {
		fmt.Fprintf(o.Out, "fell, run make generate: %s\n", text)
	}
	for _, text := range b.rose {
		fmt.Fprintf(o.Out, "ROSE: %s\n", text)
	}
	if len(b.rose) > 0 {
		failed = append(failed, fmt.Errorf("%w: %d", ErrRose, len(b.rose)))
	}
	if len(failed) == 0 && b.table.rows == 0 {
		return fmt.Errorf("no row matches %q", o.Rows)
	}
	return errors.Join(failed...)
}

func (b *bench) groups() []group {
	out := countGroups()
	out = append(out, latencyGroups()...)
	out = append(out, loadGroups()...)
	out = append(out, writeGroups()...)
	out = append(out, messageGroup())
	out = append(out, wideGroups()...)
	out = append(out, historyGroup(b.History), liveGroup())
	out = append(out, idleGroup(), commandGroup())
	return append(out, bootstrapGroups(b.Bootstrap, b.Deployed)...)
}

// wanted reports whether to measure a row.
func (b *bench) wanted(row string) bool { return b.Rows == nil || b.Rows.MatchString(row) }

// show prints a row if it is wanted.
func (b *bench) show(r row) {
	if b.wanted(r.name) {
		b.table.print(r)
	}
}

// count returns the golden counts of a work, or nil.
func (b *bench) count(work string) *Count {
	if c, found := find(b.golden, work); found {
		return &c
	}
	return nil
}

// compare records the differences from the golden counts.
func (b *bench) compare(got []Count) {
	rose, fell := Compare(b.golden, got)
	b.rose, b.fell = append(b.rose, rose...), append(b.fell, fell...)
}
