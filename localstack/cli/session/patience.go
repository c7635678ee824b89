package session

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/client"
)

// WatchPatience is how long a command that watches waits for a server that does not
// answer: a restart takes seconds, a host that is replaced takes minutes.
const WatchPatience = 5 * time.Minute

// Patience returns the patience of a command that goes on when the server is busy or
// restarts. It tells on stderr that it waits and why; before is called first, so that
// what is drawn on the terminal can be ended, and may be nil.
func Patience(c *cobra.Command, total time.Duration, before func()) client.Patience {
	return client.Patience{Total: total, Waiting: func(d time.Duration, err error) {
		if before != nil {
			before()
		}
		fmt.Fprintf(c.ErrOrStderr(), "waiting %s: %s\n", d, cause(err))
	}}
}

// cause is why a request is repeated, in a few words.
func cause(err error) string {
	if answer, ok := errors.AsType[*client.Error](err); ok {
		return answer.Detail()
	}
	if broken, ok := errors.AsType[*url.Error](err); ok {
		if u, parseErr := url.Parse(broken.URL); parseErr == nil {
			return fmt.Sprintf("%s://%s does not answer", u.Scheme, u.Host)
		}
	}
	return err.Error()
}
