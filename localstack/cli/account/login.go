package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
	"millrace/localstack/client"
)

// shortest is the minimum interval between two requests for the token.
const shortest = 100 * time.Millisecond

// page is the path of the page on which a user types the code.
const page = "/cli-callback"

// login is the state of millrace login.
type login struct {
	session   *session.Session
	noBrowser bool
	noKeyring bool
	browse    func(url string) error
}

func loginCommand(s *session.Session, browse func(url string) error) *cobra.Command {
	o := login{session: s, browse: browse}
	c := &cobra.Command{
		Use:   "login",
		Short: "Sign in to a server in the browser and store the access token in a context",
		Long: "Shows a code, which you type at a page of the server, signed in there. The access token is valid for 24 hours\n" +
			"and stored for the context that --context names, else for one of that server, which becomes the current one:\n" +
			"in the keyring of the system, or in the file of the contexts (mode 0600) if there is none.",
		Example: "  millrace login --url https://millrace.example.com\n  millrace login",
		Args:    command.NoArgs,
		RunE:    o.run,
	}
	c.Flags().BoolVar(&o.noBrowser, "no-browser", false, "do not open a browser, only print the address of the page")
	c.Flags().BoolVar(&o.noKeyring, "no-keyring", false, "store the token in the file of the contexts, mode 0600, even if there is a keyring")
	return c
}

// signedIn is the response to a device code that was redeemed or is pending.
type signedIn struct {
	Token     string    `json:"access_token"`
	ExpiresAt time.Time `json:"expires_at"`
	Email     string    `json:"user_email"`
	Org       string    `json:"org_id"`
	Workspace string    `json:"workspace_name"`
	Interval  int       `json:"interval"` // seconds; only if pending
}

func (o *login) run(c *cobra.Command, _ []string) error {
	file, contexts, err := session.UserContexts()
	if err != nil {
		return err
	}
	server, err := o.server(contexts)
	if err != nil {
		return err
	}
	name, err := contextFor(contexts, o.session.Context, server)
	if err != nil {
		return err
	}
	got, err := o.authorize(c, &client.Client{BaseURL: server})
	if err != nil {
		return err
	}
	// Another process may have changed the file during the sign-in.
	if contexts, err = session.ReadContexts(file); err != nil {
		return err
	}
	before := contexts.Contexts[name]
	next := session.Context{URL: server, Org: got.Org, ExpiresAt: got.ExpiresAt, Email: got.Email}
	next.SetToken(got.Token, !o.noKeyring)
	contexts.Contexts[name] = next
	contexts.Current = name
	if err := contexts.Write(file); err != nil {
		_ = next.RemoveToken() // nothing refers to it
		return err
	}
	_ = before.RemoveToken() // it expires within a day
	return o.report(c, name, server, got)
}

// server returns the URL to sign in to.
func (o *login) server(contexts session.Contexts) (string, error) {
	known, ok := contexts.Contexts[o.session.Context]
	switch {
	case o.session.URL != "": // also if --context is given
		return (&session.Session{URL: o.session.URL}).Address()
	case o.session.Context == "":
		return o.session.Address()
	case !ok:
		return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("there is no context %s: give its --url as well", o.session.Context)}
	}
	return known.URL, nil
}

// contextFor returns the name of the context that stores the token: the requested
// one; otherwise one of the server without an API key, which would be overwritten;
// otherwise a new one.
func contextFor(contexts session.Contexts, asked, server string) (string, error) {
	fits := func(name string) bool {
		known, ok := contexts.Contexts[name]
		return ok && known.URL == server && known.APIKey == ""
	}
	if asked != "" {
		if known := contexts.Contexts[asked]; known.APIKey != "" {
			return "", fmt.Errorf("the context %s has an API key: remove it first (millrace context rm %s), or name another context", asked, asked)
		}
		return asked, nil
	}
	if fits(contexts.Current) {
		return contexts.Current, nil
	}
	at, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	name := at.Host
	for n := 2; ; n++ {
		if _, taken := contexts.Contexts[name]; !taken || fits(name) {
			return name, nil
		}
		name = fmt.Sprintf("%s-%d", at.Host, n)
	}
}

// authorize asks the user to approve this device and returns the token.
func (o *login) authorize(c *cobra.Command, api *client.Client) (signedIn, error) {
	ctx, out := c.Context(), c.ErrOrStderr()
	var begun struct {
		DeviceCode string `json:"device_code"`
		UserCode   string `json:"user_code"`
		Interval   int    `json:"interval"`
	}
	if err := api.Do(ctx, http.MethodPost, "/auth/device/start", map[string]any{}, &begun); err != nil {
		return signedIn{}, err
	}
	code := begun.UserCode
	if len(code) == 8 {
		code = code[:4] + " " + code[4:]
	}
	fmt.Fprintf(out, "Open %s and type the code %s\n", api.BaseURL+page, code)
	if !o.noBrowser && terminal(c.InOrStdin()) {
		if err := o.browse(api.BaseURL + page); err != nil {
			fmt.Fprintf(out, "(no browser was opened: %v)\n", err)
		}
	}
	return o.poll(ctx, api, begun.DeviceCode, begun.Interval)
}

// poll requests the token until the user has approved. Errors: exit code
// NotAllowed if the code has expired.
func (o *login) poll(ctx context.Context, api *client.Client, device string, interval int) (signedIn, error) {
	for {
		select {
		case <-time.After(max(shortest, time.Duration(interval)*time.Second)):
		case <-ctx.Done():
			return signedIn{}, ctx.Err()
		}
		var got signedIn
		err := api.Do(ctx, http.MethodPost, "/auth/device/token", map[string]any{"device_code": device}, &got)
		refused, isRefusal := errors.AsType[*client.Error](err)
		switch {
		case isRefusal && refused.Status == http.StatusGone:
			return signedIn{}, &command.Error{Code: command.NotAllowed, Err: errors.New("nobody approved in time, the code has expired: run millrace login again")}
		case isRefusal && (refused.Status == http.StatusTooManyRequests || refused.Status >= http.StatusInternalServerError):
			continue // retried until the code expires
		case err != nil:
			return signedIn{}, err
		case got.Token != "":
			return got, nil
		}
		interval = got.Interval
	}
}

// report prints who is signed in where, and warns if commands in this folder use
// another server or credential.
func (o *login) report(c *cobra.Command, name, server string, got signedIn) error {
	out := o.session.Out(c)
	if out.JSON {
		answer, err := json.Marshal(map[string]any{
			"context": name, "url": server, "user_email": got.Email, "org_id": got.Org, "workspace_name": got.Workspace, "expires_at": got.ExpiresAt,
		})
		if err != nil {
			return err
		}
		if err := out.Value(answer); err != nil {
			return err
		}
	} else {
		workspace := "in no workspace"
		if got.Org != "" {
			workspace = "workspace " + got.Workspace
		}
		out.Printf("Signed in to %s as %s, %s, until %s (context %s)\n", server, got.Email, workspace, out.Time(got.ExpiresAt), name)
	}
	if used, err := (&session.Session{}).Target(); err == nil && used.APIKey != got.Token {
		fmt.Fprintf(c.ErrOrStderr(), "Commands here use %s of %s: give --context %s to use this sign-in\n", used.URL, used.Source, name)
	}
	return nil
}

func terminal(in io.Reader) bool {
	file, ok := in.(*os.File)
	return ok && isatty.IsTerminal(file.Fd())
}
