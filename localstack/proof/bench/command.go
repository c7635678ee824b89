package bench

import (
	"context"
	"os/exec"
	"time"
)

// commandTime is the budget of a command that needs no server.
const commandTime = 15 * time.Millisecond

const commandRow = "command without a server, CPU"

// commandGroup measures the start of the client's commands.
func commandGroup() group { return group{[]string{commandRow}, commandStart} }

// commandStart measures CPU time, which other processes hardly change.
func commandStart(ctx context.Context, b *bench) error {
	var times samples
	for range 41 {
		cmd := exec.CommandContext(ctx, b.Binary, "version")
		if err := cmd.Run(); err != nil {
			return err
		}
		times = append(times, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	}
	times = times[1:] // the first start reads the program from disk
	b.show(timed(commandRow, times).in(span(commandTime), times.median() <= commandTime))
	return nil
}
