// Package export copies the runs of a workspace to a directory, through the API:
// records, logs and large outputs, as compressed files by day, with a manifest of
// their hashes. Further exports to the directory add what is new.
package export

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"millrace/localstack/client"
	"millrace/localstack/filelock"
)

// ErrInUse means that another process exports to the directory.
var ErrInUse = errors.New("another export writes to it")

// settled is how long after the end of a day its runs are complete, even if this
// machine's clock is ahead of the server's.
const settled = time.Hour

// Export is an export of a workspace's finished runs to a directory.
type Export struct {
	API    *client.Client
	Dir    string
	Server string // URL, for the manifest
	Org    string // the workspace
	Selection
	Since, Until time.Time // when runs were created; zero: no bound

	Now  func() time.Time
	Done func(day string, runs int) // is called after each part; may be nil
}

// Result counts what an export did.
type Result struct {
	Runs       int `json:"runs"`       // that were added
	Events     int `json:"log_events"` // of their logs
	Outputs    int `json:"outputs"`    // too large for the records
	Present    int `json:"present"`    // runs that an earlier export had added
	Unfinished int `json:"unfinished"` // runs in progress, or whose log is not complete yet
	Lost       int `json:"lost"`       // outputs that the server no longer has
}

// Run exports. After an error, what was committed stays, and the next Run goes on
// from there. Errors: ErrInUse; *MismatchError if the directory is of another
// workspace or selection.
func (e *Export) Run(ctx context.Context) (Result, error) {
	var out Result
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return out, err
	}
	lock, err := filelock.Try(filepath.Join(e.Dir, lockFile))
	if errors.Is(err, filelock.ErrLocked) {
		return out, fmt.Errorf("%s: %w", e.Dir, ErrInUse)
	}
	if err != nil {
		return out, err
	}
	defer func() { _ = lock.Unlock() }() // ends with the process at the latest
	m, err := openManifest(e.Dir, Manifest{Format: format, Server: e.Server, Org: e.Org, Selection: e.Selection})
	if err != nil {
		return out, err
	}
	w := &walk{Export: e, manifest: m, out: &out}
	err = w.run(ctx)
	if w.part != nil {
		w.part.discard()
	}
	return out, err
}

// walk goes through the runs, the newest first.
type walk struct {
	*Export
	manifest *Manifest
	out      *Result
	list     lister

	day        *Day // that it is in
	whole      bool // all of its runs are looked at
	unfinished int
	have       map[string]struct{} // ids that are exported
	part       *part
	pending    []listed // runs to be read next
}

func (w *walk) run(ctx context.Context) error {
	w.list = newLister(w.API, w.Selection, w.Since, w.Until)
	for !w.list.ended {
		page, err := w.list.next(ctx)
		if err != nil {
			return err
		}
		for _, run := range page {
			skip, err := w.visit(ctx, run)
			if err != nil {
				return err
			}
			if skip {
				break
			}
		}
	}
	return w.leave(ctx, w.Since.IsZero() || w.day != nil && !w.Since.After(w.day.start()))
}

// visit looks at a run. skip means that its day is complete, and the list has gone
// on to the day before.
func (w *walk) visit(ctx context.Context, run listed) (skip bool, err error) {
	date := run.Created.UTC().Format(time.DateOnly)
	if w.day == nil || w.day.Date != date {
		if err := w.leave(ctx, true); err != nil {
			return false, err
		}
		if err := w.enter(date); err != nil {
			return false, err
		}
		if w.day.Complete {
			w.out.Present += w.day.runs()
			w.list.before(w.day.start())
			return true, nil
		}
	}
	_, present := w.have[run.ID]
	switch {
	case !run.ended():
		w.unfinished++
		w.out.Unfinished++
	case !w.wants(run):
	case present:
		w.out.Present++
	default:
		w.have[run.ID] = struct{}{}
		if w.pending = append(w.pending, run); len(w.pending) == readers {
			return false, w.flush(ctx)
		}
	}
	return false, nil
}

// wants reports whether a finished run is selected.
func (w *walk) wants(run listed) bool {
	return len(w.Statuses) == 0 || slices.Contains(w.Statuses, run.Status)
}

// enter begins a day.
func (w *walk) enter(date string) (err error) {
	w.day, w.unfinished = w.manifest.day(date), 0
	w.whole = w.Until.IsZero() || !w.Until.Before(w.day.end())
	if w.have = map[string]struct{}{}; w.day.Complete {
		return nil
	}
	return w.day.each(w.Dir, func(id string) { w.have[id] = struct{}{} })
}

// leave ends the day, if there is one. covered means that its earliest runs were
// looked at.
func (w *walk) leave(ctx context.Context, covered bool) error {
	if w.day == nil || w.day.Complete {
		return nil
	}
	if err := w.flush(ctx); err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	if !w.whole || !covered || w.unfinished > 0 || w.Now().Before(w.day.end().Add(settled)) {
		return nil
	}
	w.day.Complete = true
	return w.manifest.save(w.Dir)
}

// commit ends the part, if there is one: from then on its runs are exported.
func (w *walk) commit() error {
	p := w.part
	if p == nil {
		return nil
	}
	w.part = nil
	done, err := p.close()
	if err != nil {
		return err
	}
	w.day.Parts = append(w.day.Parts, done)
	if err := w.manifest.save(w.Dir); err != nil {
		return err
	}
	w.out.Runs += done.Runs.Count
	w.out.Events += done.count(done.Logs)
	w.out.Outputs += done.count(done.Outputs)
	if w.Done != nil {
		w.Done(w.day.Date, done.Runs.Count)
	}
	return nil
}
