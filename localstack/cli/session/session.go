// Package session determines which server a command uses, and the format of its
// output.
package session

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/output"
	"millrace/localstack/client"
)

// Session holds the flags that all client commands have.
type Session struct {
	URL, APIKey, Context string
	JSON                 bool
}

// Commands adds the flags to commands and returns them.
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

// Client returns a client of the chosen server. Errors say how to choose one, or how
// to sign in again.
func (s *Session) Client() (*client.Client, error) {
	t, err := s.valid()
	return t.Client(), err
}

// valid returns the chosen server, and an error if its credential has expired.
func (s *Session) valid() (Target, error) {
	t, err := s.Target()
	if err == nil {
		err = t.expired()
	}
	return t, err
}

// Changing is like [Session.Client], for commands that change something: it prints
// the server to stderr.
func (s *Session) Changing(c *cobra.Command) (*client.Client, error) {
	t, err := s.valid()
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s (%s)\n", t.URL, t.Source)
	return t.Client(), nil
}

// Target returns the chosen server.
func (s *Session) Target() (Target, error) {
	c, err := s.choose()
	if err != nil {
		return c.Target, err
	}
	return c.complete()
}

// Address returns the URL of the chosen server. It reads no credential from the keyring.
func (s *Session) Address() (string, error) {
	c, err := s.choose()
	return c.URL, err
}

func (s *Session) choose() (candidate, error) {
	dir, err := os.Getwd()
	if err != nil {
		return candidate{}, err
	}
	config, err := ConfigFile()
	if err != nil {
		return candidate{}, err
	}
	return s.find(os.Getenv, dir, config)
}

// Out returns the printer of a command's output.
func (s *Session) Out(c *cobra.Command) *output.Printer {
	return output.New(c.OutOrStdout(), s.JSON)
}
