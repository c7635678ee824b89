// Package session says which server a command speaks to, and how it answers.
package session

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

// Session is what the flags of client commands say.
type Session struct {
	URL, APIKey, Context string
	JSON                 bool
}

// Commands gives the flags to commands and returns them.
func (s *Session) Commands(commands ...*cobra.Command) []*cobra.Command {
	for _, c := range commands {
		f := c.PersistentFlags()
		f.StringVar(&s.URL, "url", "", "the server (default: MILLRACE_URL, .millrace/credentials.json of this folder or one above, the context in use)")
		f.StringVar(&s.APIKey, "api-key", "", "the key to sign in with (default: MILLRACE_API_KEY, or that of the server's credentials or context)")
		f.StringVar(&s.Context, "context", "", "a context, as millrace context list shows them")
		f.BoolVar(&s.JSON, "json", false, "print the API's JSON")
	}
	return commands
}

// Client returns a client of the server that is meant. Errors tell how to name
// one, or how to sign in again.
func (s *Session) Client() (*client.Client, error) {
	t, err := s.valid()
	return t.Client(), err
}

// valid finds the server that is meant, with a credential that has not expired.
func (s *Session) valid() (Target, error) {
	t, err := s.Target()
	if err == nil {
		err = t.expired()
	}
	return t, err
}

// Changing is [Session.Client] for a command that changes something: it tells on
// stderr which server it speaks to.
func (s *Session) Changing(c *cobra.Command) (*client.Client, error) {
	t, err := s.valid()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s (%s)\n", t.URL, t.Source)
	return t.Client(), nil
}

// Target finds the server that is meant.
func (s *Session) Target() (Target, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Target{}, err
	}
	config, err := ConfigFile()
	if err != nil {
		return Target{}, err
	}
	return s.find(os.Getenv, dir, config)
}

// Out prints what a command answers.
func (s *Session) Out(c *cobra.Command) *output.Printer {
	return output.New(c.OutOrStdout(), s.JSON)
}
