package e2e

import (
	"bufio"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

func TestFirstStartCreatesLastingKey(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, dir)
	t.Logf("healthy after %s", s.Startup)
	info, err := os.Stat(filepath.Join(dir, "credentials.json"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NotEmpty(t, s.Credentials.OrgID)

	var me struct {
		UserEmail string `json:"user_email"`
		OrgID     string `json:"org_id"`
	}
	require.NoError(t, s.Client().Do(t.Context(), "GET", "/me", nil, &me))
	assert.Equal(t, s.Credentials.OrgID, me.OrgID)
	require.NoError(t, s.Client().Do(t.Context(), "POST", "/api-keys", map[string]any{"name": "all", "scopes": []string{}}, nil),
		"the key may do what an owner may")

	require.NoError(t, s.Stop(), "SIGTERM ends it with code 0")
	again := start(t, dir)
	assert.Equal(t, s.Credentials.APIKey, again.Credentials.APIKey)
	assert.Equal(t, s.Credentials.OrgID, again.Credentials.OrgID)
	assert.NotEqual(t, s.Credentials.BaseURL, "")
	require.NoError(t, again.Client().Do(t.Context(), "GET", "/me", nil, &me))
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t), "--super-admin", "root@example.com")
	api := &client.Client{BaseURL: s.Credentials.BaseURL}
	signIn := func(email string) *client.Client {
		var out struct {
			IDToken string `json:"id_token"`
		}
		require.NoError(t, s.Local().Do(t.Context(), "POST", "/_local/sign-in", map[string]any{"email": email}, &out))
		return &client.Client{BaseURL: api.BaseURL, Token: out.IDToken}
	}
	var me struct {
		UserEmail  string `json:"user_email"`
		SuperAdmin bool   `json:"super_admin"`
		OrgID      string `json:"org_id"`
		Role       string `json:"role"`
	}
	require.NoError(t, signIn(s.Credentials.Email).Do(t.Context(), "GET", "/users/me", nil, &me))
	assert.Equal(t, s.Credentials.OrgID, me.OrgID)
	assert.Equal(t, "owner", me.Role)
	assert.False(t, me.SuperAdmin, "nobody is unless the server was told so")
	require.NoError(t, signIn("root@example.com").Do(t.Context(), "GET", "/users/me", nil, &me))
	assert.True(t, me.SuperAdmin)

	err := api.Do(t.Context(), "GET", "/me", nil, nil)
	var refused *client.Error
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusUnauthorized, refused.Status)
}

func TestSecondServerIsRejected(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	s := start(t, dir)
	out, err := exec.CommandContext(t.Context(), binary, "serve", "--data", dir, "--listen", "127.0.0.1:0").CombinedOutput()
	var exit *exec.ExitError
	require.True(t, errors.As(err, &exit), "%v", err)
	assert.Equal(t, 3, exit.ExitCode())
	assert.Contains(t, string(out), "in use by another server")
	_, err = s.Client().WaitHealthy(t.Context())
	require.NoError(t, err, "the first one goes on")
}

func TestWrongFlagsAreAWrongCommandLine(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"--listen=nonsense":         `"nonsense" is not host:port`,
		"--limit=none=3":            `unknown limit "none"`,
		"--allow-range=1.2.3":       `"1.2.3" is not a CIDR range`,
		"--allow-origin=nowhere":    "--allow-origin: ",
		"--smtp=nowhere":            "--smtp: ",
		"--mount=/no/such/folder":   "--mount: ",
		"--python=/no/such/python3": "--python: ",
		"--log-level=loud":          "--log-level is ",
	} {
		dir := filepath.Join(t.TempDir(), "data")
		out, err := exec.CommandContext(t.Context(), binary, "serve", "--data", dir, flag).CombinedOutput()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, flag)
		assert.Equal(t, 2, exit.ExitCode(), flag)
		assert.Contains(t, string(out), want, flag)
		assert.NoDirExists(t, dir, flag)
	}
}

func TestRelativeDataDirectory(t *testing.T) {
	t.Parallel()
	parent := filepath.Dir(dataDir(t))
	cmd := exec.CommandContext(t.Context(), binary, "serve", "--data", "data", "--listen", "127.0.0.1:0")
	cmd.Dir = parent
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	first, err := bufio.NewReader(out).ReadString('\n') // written when it is ready
	require.NoError(t, err)
	assert.Contains(t, first, "serves "+filepath.Join(parent, "data"))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), "SIGINT ends it with code 0 as well")
	assert.FileExists(t, filepath.Join(parent, "data", "credentials.json"))
	assert.NoDirExists(t, filepath.Join(parent, "data", "objects", "buckets", "data"))
}

func TestInvalidCommandLines(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"serve", "--data", dataDir(t), "--no-such-flag"},
		{"serve", "--data", dataDir(t), "--log-level", "loud"},
		{"serve", "--data", dataDir(t), "extra"},
	} {
		out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		var exit *exec.ExitError
		require.True(t, errors.As(err, &exit), "%v: %v", args, err)
		assert.Equal(t, 2, exit.ExitCode(), "%v: %s", args, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, "serve", "--data", dataDir(t), "--allow-range", "everything").CombinedOutput()
	require.Error(t, err)
	assert.Contains(t, string(out), `"everything" is not a CIDR range`)
}

// TestDemo runs the program of make demo, which checks its results itself.
func TestDemo(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), binary, "demo").CombinedOutput()
	require.NoError(t, err, "%s", out)
	assert.Contains(t, string(out), "Reused, not run again: prepare, expensive")
	assert.NotContains(t, string(out), "\x1b", "no terminal, no control characters")
}
