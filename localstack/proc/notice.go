package proc

import (
	"context"
	"io"
	"os"
	"os/exec"
	"time"
)

// noticeVariable names the file of a [Notice] to the program that is to write it.
const noticeVariable = "MILLRACE_NOTICE"

// Ready says, with a message, that this program is ready: to whoever waits for a
// [Notice] of it, if there is one, else on stdout.
func Ready(stdout io.Writer, message string) error {
	path := os.Getenv(noticeVariable)
	if path == "" {
		_, err := io.WriteString(stdout, message)
		return err
	}
	partial := path + ".partial"
	if err := os.WriteFile(partial, []byte(message), 0o600); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// Notice is the path of a file, not there yet, in which a program will say that
// it is ready.
type Notice string

// Ask has a command that is not started yet write the notice when it calls
// [Ready].
func (n Notice) Ask(cmd *exec.Cmd) {
	cmd.Env = append(cmd.Environ(), noticeVariable+"="+string(n))
}

// AwaitNotice is [Child.AwaitReady] for a program that was asked for a notice. It
// returns its message.
func (c *Child) AwaitNotice(ctx context.Context, patience time.Duration, n Notice) (message string, err error) {
	err = c.AwaitReady(ctx, patience, n.into(&message))
	return message, err
}

// into reads the notice; os.ErrNotExist as long as it is not there.
func (n Notice) into(message *string) func(context.Context) error {
	return func(context.Context) error {
		data, err := os.ReadFile(string(n))
		*message = string(data)
		return err
	}
}
