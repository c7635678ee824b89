package runs

import (
	"context"

	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

// Live shows a run while it goes on, in a program that prints other things as well.
type Live struct {
	progress *progress
	out      *output.Printer
}

// NewLive shows a run on out.
func NewLive(out *output.Printer) *Live {
	return &Live{&progress{out: out, seen: map[string]string{}}, out}
}

// Follow reads a run until it has ended or ctx ends, and passes each state to seen.
func Follow(ctx context.Context, api *client.Client, id string, seen func(client.Run)) error {
	_, err := api.Watch(ctx, id, watchEvery, seen)
	return err
}

// Show shows a state of the run, its last one with the outcome.
func (l *Live) Show(run client.Run) {
	l.progress.show(run)
	if run.Ended() && !l.out.JSON {
		end(l.out, run)
	}
}

// Interrupted says that something else was printed: what was drawn before stays.
func (l *Live) Interrupted() { l.progress.lines = 0 }
