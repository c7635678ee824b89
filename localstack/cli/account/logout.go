package account

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

func logoutCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "logout",
		Short: "Sign out: revoke your access tokens and remove the context's",
		Long:  "Revokes all your access tokens for the server, also those of other machines, and removes the context's. API keys stay valid.",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			file, contexts, err := session.UserContexts()
			if err != nil {
				return err
			}
			name, err := signedInContext(contexts, s)
			if err != nil {
				return err
			}
			known := contexts.Contexts[name]
			fmt.Fprintf(c.ErrOrStderr(), "%s (context %s)\n", known.URL, name)
			// The local copy is removed whatever the server answers.
			token, tokenErr := known.AccessToken()
			contexts.Contexts[name] = session.Context{URL: known.URL, Org: known.Org}
			if err := contexts.Write(file); err != nil {
				return err
			}
			expires := known.ExpiresAt
			if err := errors.Join(tokenErr, known.RemoveToken()); err != nil {
				return fmt.Errorf("the context is signed out, but the token was not revoked: %w", err)
			}
			if time.Now().Before(expires) {
				api := &client.Client{BaseURL: known.URL, Token: token}
				err := api.Do(c.Context(), http.MethodPost, "/auth/logout", nil, nil)
				if apiErr, ok := errors.AsType[*client.Error](err); err != nil && (!ok || apiErr.Status != http.StatusUnauthorized) {
					return fmt.Errorf("the token is removed here, but the server did not revoke it: %w", err)
				}
			}
			s.Out(c).Printf("Signed out of %s\n", known.URL)
			return nil
		},
	}
}

// signedInContext returns the name of the context of --context, one of the server
// of --url, or else the current one. Errors: exit code NotAllowed if it has no
// access token.
func signedInContext(contexts session.Contexts, s *session.Session) (string, error) {
	names := []string{s.Context}
	if s.Context == "" {
		names = append([]string{contexts.Current}, slices.Sorted(maps.Keys(contexts.Contexts))...)
	}
	if s.Context == "" && s.URL == "" {
		names = names[:1]
	}
	for _, name := range names {
		if known := contexts.Contexts[name]; known.SignedIn() && (s.URL == "" || known.URL == strings.TrimSuffix(s.URL, "/")) {
			return name, nil
		}
	}
	return "", &command.Error{Code: command.NotAllowed, Err: errors.New("you are not signed in: millrace context list shows the contexts, millrace login signs in")}
}
