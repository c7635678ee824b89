package general

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
)

// runContext runs millrace context with the input of a user.
func runContext(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	s := &session.Session{}
	root := &cobra.Command{Use: "millrace", SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(s.Commands(contextCommand(s))...)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&bytes.Buffer{})
	root.SetIn(strings.NewReader(stdin))
	root.SetArgs(append([]string{"context"}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestContexts sets the environment of the process, so it is not parallel.
func TestContexts(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
	keyring.MockInit()
	_, err := runContext(t, "key of prod\n", "add", "prod", "--url", "https://prod/")
	require.NoError(t, err)
	_, err = runContext(t, "", "add", "test", "--url", "https://test", "--org", "org_t")
	require.NoError(t, err)
	_, err = runContext(t, "", "add", "prod", "--url", "https://other")
	require.ErrorContains(t, err, "there is a context prod already")
	_, err = runContext(t, "", "add", "none", "--url", "ftp://prod")
	assert.Equal(t, command.WrongUsage, command.Code(err), err)

	file, contexts, err := session.UserContexts()
	require.NoError(t, err)
	assert.Equal(t, session.Contexts{Current: "prod", Contexts: map[string]session.Context{
		"prod": {URL: "https://prod", APIKey: "key of prod"}, "test": {URL: "https://test", Org: "org_t"},
	}}, contexts)
	_, err = runContext(t, "", "use", "test")
	require.NoError(t, err)
	out, err := runContext(t, "", "list")
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^ +prod +https://prod\n\* +test +https://test$`, out)
	for _, do := range []string{"use", "rm"} {
		_, err = runContext(t, "", do, "none")
		require.ErrorContains(t, err, "there is no context none", do)
		assert.Equal(t, command.NotFound, command.Code(err), do)
	}

	known := contexts.Contexts["test"]
	known.SetToken("mat_test", true)
	contexts.Contexts["test"], contexts.Current = known, "test"
	require.NoError(t, contexts.Write(file))
	_, err = runContext(t, "", "rm", "test")
	require.NoError(t, err)
	_, err = keyring.Get("millrace", known.Keyring)
	require.ErrorIs(t, err, keyring.ErrNotFound)

	known.SetToken("mat_test", true)
	contexts.Contexts["test"] = known
	require.NoError(t, contexts.Write(file))
	keyring.MockInitWithError(errors.New("locked"))
	_, err = runContext(t, "", "rm", "test")
	require.ErrorContains(t, err, "not its token in the keyring: locked")
	_, contexts, err = session.UserContexts()
	require.NoError(t, err)
	assert.Equal(t, session.Contexts{Contexts: map[string]session.Context{"prod": {URL: "https://prod", APIKey: "key of prod"}}}, contexts)
}
