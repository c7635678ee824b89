package runs

import (
	"context"

	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

// Live shows a run in progress, in a program that also prints other output.
type Live struct {
	progress *progress
	out      *output.Printer
}

// NewLive returns a Live that prints to out.
func NewLive(out *output.Printer) *Live {
	return &Live{&progress{out: out, seen: map[string]string{}}, out}
}

// Follow polls a run until it or ctx has ended, and calls seen with each state.
func Follow(ctx context.Context, api *client.Client, id string, seen func(client.Run)) error {
	_, err := api.Watch(ctx, id, watchEvery, seen)
	return err
}

// Show prints a state of the run; the final one with its outcome.
func (l *Live) Show(run client.Run) {
	l.progress.show(run)
	if run.Ended() && !l.out.JSON {
		end(l.out, run)
	}
}

// Interrupted must be called after other output: the lines above it are not drawn
// over.
func (l *Live) Interrupted() { l.progress.lines = 0 }
