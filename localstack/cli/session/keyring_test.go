package session

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"millrace/localstack/cli/command"
)

// withKeyring replaces the keyring by one in memory that fails with err. It is global,
// so its tests are not parallel.
func withKeyring(t *testing.T, err error) {
	t.Helper()
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
	keyring.MockInitWithError(err)
	if err == nil {
		keyring.MockInit()
	}
}

func TestTokenIsInKeyringOrContext(t *testing.T) {
	for name, c := range map[string]struct {
		bus        string
		err        error
		useKeyring bool
		want       bool // it is in the keyring
	}{
		"keyring":       {"unix:path=/nonexistent", nil, true, true},
		"not wanted":    {"unix:path=/nonexistent", nil, false, false},
		"keyring fails": {"unix:path=/nonexistent", errors.New("locked"), true, false},
		"no D-Bus":      {"autolaunch:", nil, true, runtime.GOOS == "darwin" || runtime.GOOS == "windows"},
		"unsupported":   {"unix:path=/nonexistent", keyring.ErrUnsupportedPlatform, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			withKeyring(t, c.err)
			t.Setenv("DBUS_SESSION_BUS_ADDRESS", c.bus)
			known := Context{URL: "https://prod", Org: "org_p", ExpiresAt: time.Now().Add(time.Hour)}
			assert.False(t, known.SignedIn())
			known.SetToken("mat_secret", c.useKeyring)
			assert.True(t, known.SignedIn())
			assert.Equal(t, c.want, known.Keyring != "")
			assert.Equal(t, c.want, known.Token == "")
			token, err := known.AccessToken()
			require.NoError(t, err)
			assert.Equal(t, "mat_secret", token)

			removed := known
			require.NoError(t, removed.RemoveToken())
			assert.Equal(t, Context{URL: "https://prod", Org: "org_p"}, removed)
			require.NoError(t, known.RemoveToken(), "the keyring has lost it already")
		})
	}
}

// TestKeyringIsReadForItsContextOnly has a context whose keyring fails.
func TestKeyringIsReadForItsContextOnly(t *testing.T) {
	withKeyring(t, nil)
	config := filepath.Join(t.TempDir(), "contexts.json")
	prod := Context{URL: "https://prod", ExpiresAt: time.Now().Add(time.Hour)}
	prod.SetToken("mat_prod", true)
	expired := Context{URL: "https://old", ExpiresAt: time.Now().Add(-time.Hour)}
	expired.SetToken("mat_old", true)
	require.NoError(t, Contexts{Current: "prod", Contexts: map[string]Context{"prod": prod, "old": expired}}.Write(config))
	target := func(s Session, env map[string]string) (Target, error) {
		chosen, err := s.find(func(name string) string { return env[name] }, t.TempDir(), config)
		require.NoError(t, err)
		return chosen.complete()
	}
	for name, s := range map[string]Session{"current": {}, "by name": {Context: "prod"}, "by URL": {URL: "https://prod/"}} {
		got, err := target(s, nil)
		require.NoError(t, err, name)
		assert.Equal(t, "mat_prod", got.APIKey, name)
	}

	keyring.MockInitWithError(errors.New("locked"))
	for name, s := range map[string]Session{"current": {}, "by name": {Context: "prod"}, "by URL": {URL: "https://prod"}} {
		_, err := target(s, nil)
		require.ErrorContains(t, err, "https://prod cannot be read from the keyring: locked", name)
		assert.Equal(t, command.NotAllowed, command.Code(err), name)
	}
	for name, c := range map[string]struct {
		flags Session
		env   map[string]string
		want  string
	}{
		"key by flag":        {Session{APIKey: "mine"}, nil, "mine"},
		"key by environment": {Session{}, map[string]string{keyVariable: "env's"}, "env's"},
		"another server":     {Session{URL: "https://test"}, nil, ""},
		"expired":            {Session{Context: "old"}, nil, ""},
	} {
		got, err := target(c.flags, c.env)
		require.NoError(t, err, name)
		assert.Equal(t, c.want, got.APIKey, name)
	}
}

func TestKeyringThatDoesNotAnswer(t *testing.T) {
	withKeyring(t, nil)
	synctest.Test(t, func(t *testing.T) {
		locked := make(chan struct{})
		began := time.Now()
		_, err := inKeyring(func() (string, error) {
			<-locked
			return "late", nil
		})
		require.ErrorContains(t, err, "no answer within 10s")
		assert.Equal(t, keyringTimeout, time.Since(began))
		close(locked)
	})
}
