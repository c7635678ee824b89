package proc

import (
	"context"
	"io"
	"os"
	"os/exec"
	"time"
)

// noticeVariable tells a program the file of its [Notice].
const noticeVariable = "MILLRACE_NOTICE"

// Ready reports, with a message, that this program is ready: to the process
// that waits for its [Notice], if there is one, otherwise on stdout.
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

// Notice is the path of a file that does not exist yet, which a program writes
// when it is ready.
type Notice string

// Ask makes a command that is not started yet write the notice when it calls
// [Ready].
func (n Notice) Ask(cmd *exec.Cmd) {
	cmd.Env = append(cmd.Environ(), noticeVariable+"="+string(n))
}

// AwaitNotice is [Child.AwaitReady] for a program with a notice. It returns its
// message.
func (c *Child) AwaitNotice(ctx context.Context, patience time.Duration, n Notice) (message string, err error) {
	err = c.AwaitReady(ctx, patience, n.into(&message))
	return message, err
}

// into returns a function that reads the notice; os.ErrNotExist while it does
// not exist.
func (n Notice) into(message *string) func(context.Context) error {
	return func(context.Context) error {
		data, err := os.ReadFile(string(n))
		*message = string(data)
		return err
	}
}
