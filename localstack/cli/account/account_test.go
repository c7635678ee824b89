package account

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"millrace/functions/auth"
	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
	"millrace/localstack/proof/localtest"
)

// world is a server that devices may poll without delay, and a user's configuration.
type world struct {
	env    *localtest.Env
	url    string
	config string
}

// newWorld sets the environment of the process, so tests that use it are not
// parallel.
func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	for _, name := range []string{"MILLRACE_URL", "MILLRACE_API_KEY", "MILLRACE_ORG"} {
		t.Setenv(name, "")
	}
	t.Chdir(t.TempDir())
	keyring.MockInitWithError(errors.New("no keyring in this test"))
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
	w := &world{env: localtest.New(t, auth.Spec)}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		w.env.API.Handler().ServeHTTP(rec, r)
		rw.WriteHeader(rec.Code)
		_, _ = rw.Write(bytes.ReplaceAll(rec.Body.Bytes(), []byte(`"interval":2`), []byte(`"interval":0`)))
	}))
	t.Cleanup(server.Close)
	w.url = server.URL
	var err error
	w.config, err = session.ConfigFile()
	require.NoError(t, err)
	return w
}

// buffer is output that a test reads while a command writes to it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *buffer) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *buffer) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// run runs a command line until it exits.
func (w *world) run(ctx context.Context, errOut *buffer, args ...string) (string, error) {
	s := &session.Session{}
	root := &cobra.Command{Use: "millrace", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(s.Commands(Commands(s)...)...)
	var out buffer
	root.SetOut(&out)
	root.SetErr(errOut)
	root.SetIn(strings.NewReader(""))
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

var shownCode = regexp.MustCompile(`type the code ([0-9]{4}) ([0-9]{4})\n`)

// login runs millrace login and approves it as a user in the browser would.
func (w *world) login(t *testing.T, args ...string) (out, printed string) {
	t.Helper()
	var errOut buffer
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := w.run(t.Context(), &errOut, append([]string{"login"}, args...)...)
		done <- result{out, err}
	}()
	var code []string
	require.Eventually(t, func() bool {
		code = shownCode.FindStringSubmatch(errOut.String())
		return code != nil || len(done) > 0
	}, time.Minute, time.Millisecond)
	if code != nil {
		w.env.Do(t, w.env.SignIn(t, w.env.A.Owner), "POST", "/auth/device/approve", map[string]any{"user_code": code[1] + code[2]}).Require(t, 200)
	}
	r := <-done
	require.NoError(t, r.err)
	return r.out, errOut.String()
}

func TestLoginWhoamiLogout(t *testing.T) {
	w := newWorld(t)
	out, printed := w.login(t, "--url", w.url+"/")
	assert.Contains(t, printed, "Open "+w.url+"/cli-callback and type the code")
	assert.Contains(t, out, "Signed in to "+w.url+" as "+w.env.A.Owner+", workspace "+w.env.A.Name)
	info, err := os.Stat(w.config)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	contexts, err := session.ReadContexts(w.config)
	require.NoError(t, err)
	name := strings.TrimPrefix(w.url, "http://")
	known := contexts.Contexts[name]
	assert.Equal(t, name, contexts.Current)
	assert.Equal(t, w.env.A.OrgID, known.Org)
	assert.NotContains(t, out+printed, known.Token)

	out, err = w.run(t.Context(), &buffer{}, "whoami")
	require.NoError(t, err)
	for _, want := range []string{w.url, w.env.A.Owner, w.env.A.Name + " (" + w.env.A.OrgID + ")", "owner"} {
		assert.Contains(t, out, want)
	}
	out, err = w.run(t.Context(), &buffer{}, "whoami", "--json")
	require.NoError(t, err)
	assert.True(t, json.Valid([]byte(out)), out)

	_, _ = w.login(t) // again, to the context in use
	contexts, err = session.ReadContexts(w.config)
	require.NoError(t, err)
	assert.Len(t, contexts.Contexts, 1)
	token := contexts.Contexts[name].Token
	assert.NotEqual(t, known.Token, token)

	out, err = w.run(t.Context(), &buffer{}, "logout")
	require.NoError(t, err)
	assert.Contains(t, out, "Signed out of "+w.url)
	for _, revoked := range []string{known.Token, token} {
		w.env.Do(t, revoked, "GET", "/me", nil).Require(t, 401)
	}
	data, err := os.ReadFile(w.config)
	require.NoError(t, err)
	assert.NotContains(t, string(data), "access_token")
	_, err = w.run(t.Context(), &buffer{}, "logout")
	assert.Equal(t, command.NotAllowed, command.Code(err))
}

// TestTokenIsStoredInKeyring signs in twice and out again on a machine with a keyring.
func TestTokenIsStoredInKeyring(t *testing.T) {
	w := newWorld(t)
	keyring.MockInit()
	var accounts, tokens []string
	for range 2 {
		_, _ = w.login(t, "--url", w.url)
		contexts, err := session.ReadContexts(w.config)
		require.NoError(t, err)
		known := contexts.Contexts[contexts.Current]
		assert.Empty(t, known.Token)
		token, err := known.AccessToken()
		require.NoError(t, err)
		data, err := os.ReadFile(w.config)
		require.NoError(t, err)
		assert.NotContains(t, string(data), token)
		accounts, tokens = append(accounts, known.Keyring), append(tokens, token)
	}
	_, err := keyring.Get("millrace", accounts[0])
	require.ErrorIs(t, err, keyring.ErrNotFound, "the token of the first sign-in was replaced")
	out, err := w.run(t.Context(), &buffer{}, "whoami")
	require.NoError(t, err)
	assert.Contains(t, out, w.env.A.Owner)

	_, err = w.run(t.Context(), &buffer{}, "logout")
	require.NoError(t, err)
	_, err = keyring.Get("millrace", accounts[1])
	require.ErrorIs(t, err, keyring.ErrNotFound)
	for _, token := range tokens {
		w.env.Do(t, token, "GET", "/me", nil).Require(t, 401)
	}
}

// TestKeyringThatFailsAfterLogin asks for a new sign-in, also with the token in the file.
func TestKeyringThatFailsAfterLogin(t *testing.T) {
	w := newWorld(t)
	keyring.MockInit()
	_, _ = w.login(t, "--url", w.url)
	keyring.MockInitWithError(errors.New("locked"))
	_, err := w.run(t.Context(), &buffer{}, "whoami")
	require.ErrorContains(t, err, "cannot be read from the keyring: locked; sign in again with millrace login --no-keyring")
	assert.Equal(t, command.NotAllowed, command.Code(err))
	_, err = w.run(t.Context(), &buffer{}, "logout")
	require.ErrorContains(t, err, "the token was not revoked")

	keyring.MockInit()
	_, _ = w.login(t, "--url", w.url, "--no-keyring")
	contexts, err := session.ReadContexts(w.config)
	require.NoError(t, err)
	known := contexts.Contexts[contexts.Current]
	assert.Empty(t, known.Keyring)
	w.env.Do(t, known.Token, "GET", "/me", nil).Require(t, 200)
}

func TestLoginKeepsContextsWithAPIKeys(t *testing.T) {
	w := newWorld(t)
	host := strings.TrimPrefix(w.url, "http://")
	require.NoError(t, session.Contexts{Current: host, Contexts: map[string]session.Context{
		host: {URL: w.url, APIKey: w.env.A.Key},
	}}.Write(w.config))
	out, _ := w.login(t)
	assert.Contains(t, out, "(context "+host+"-2)")
	_, _ = w.login(t, "--context", "mine", "--url", w.url)
	contexts, err := session.ReadContexts(w.config)
	require.NoError(t, err)
	assert.Equal(t, w.env.A.Key, contexts.Contexts[host].APIKey)
	assert.NotEmpty(t, contexts.Contexts[host+"-2"].Token)
	assert.Equal(t, "mine", contexts.Current)

	_, err = w.run(t.Context(), &buffer{}, "login", "--context", host)
	require.ErrorContains(t, err, "has an API key")
	_, err = w.run(t.Context(), &buffer{}, "login", "--context", "none")
	assert.Equal(t, command.NotFound, command.Code(err))
}

func TestLoginReportsServerThatCommandsUse(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, os.Mkdir(".millrace", 0o700))
	file := filepath.Join(".millrace", "credentials.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"base_url": "`+w.url+`", "api_key": "`+w.env.A.Key+`"}`), 0o600))
	_, printed := w.login(t)
	assert.Contains(t, printed, "Commands here use "+w.url+" of ")
	out, err := w.run(t.Context(), &buffer{}, "whoami")
	require.NoError(t, err)
	assert.Contains(t, out, "API key")
	out, err = w.run(t.Context(), &buffer{}, "whoami", "--context", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	assert.Contains(t, out, "owner")
}

func TestExpiredTokenAsksForLogin(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, session.Contexts{Current: "prod", Contexts: map[string]session.Context{
		"prod": {URL: w.url, Token: "mat_x", ExpiresAt: time.Now().Add(-time.Minute), Email: "ann@example.com"},
	}}.Write(w.config))
	_, err := w.run(t.Context(), &buffer{}, "whoami")
	assert.Equal(t, command.NotAllowed, command.Code(err))
	require.ErrorContains(t, err, "millrace login --context prod")
	out, err := w.run(t.Context(), &buffer{}, "whoami", "--api-key", w.env.A.Key)
	require.NoError(t, err, "another credential has not expired")
	assert.Contains(t, out, w.env.A.Owner)
	out, err = w.run(t.Context(), &buffer{}, "logout")
	require.NoError(t, err)
	assert.Contains(t, out, "Signed out")
}

func TestLoginEndsWhenTheCodeExpires(t *testing.T) {
	w := newWorld(t)
	var errOut buffer
	done := make(chan error, 1)
	go func() {
		_, err := w.run(t.Context(), &errOut, "login", "--url", w.url)
		done <- err
	}()
	require.Eventually(t, func() bool { return shownCode.MatchString(errOut.String()) }, time.Minute, time.Millisecond)
	w.env.Clock.Advance(6 * time.Minute)
	err := <-done
	assert.Equal(t, command.NotAllowed, command.Code(err))
	require.ErrorContains(t, err, "run millrace login again")
}

func TestLoginStopsOnInterrupt(t *testing.T) {
	w := newWorld(t)
	ctx, interrupt := context.WithCancel(t.Context())
	var errOut buffer
	done := make(chan error, 1)
	go func() {
		_, err := w.run(ctx, &errOut, "login", "--url", w.url)
		done <- err
	}()
	require.Eventually(t, func() bool { return shownCode.MatchString(errOut.String()) }, time.Minute, time.Millisecond)
	interrupt()
	require.ErrorIs(t, <-done, context.Canceled)
	_, err := os.Stat(w.config)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

func TestLogoutRemovesTokenIfServerIsUnreachable(t *testing.T) {
	w := newWorld(t)
	stopped := httptest.NewServer(http.NotFoundHandler())
	stopped.Close()
	require.NoError(t, session.Contexts{Current: "prod", Contexts: map[string]session.Context{
		"prod": {URL: stopped.URL, Token: "mat_x", ExpiresAt: time.Now().Add(time.Hour)},
	}}.Write(w.config))
	_, err := w.run(t.Context(), &buffer{}, "logout")
	require.ErrorContains(t, err, "did not revoke it")
	contexts, err := session.ReadContexts(w.config)
	require.NoError(t, err)
	assert.Empty(t, contexts.Contexts["prod"].Token)
}
