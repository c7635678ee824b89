package signin_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/signin"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

const url = "http://127.0.0.1:8080"

func open(t *testing.T, dir, url string) (*signin.Issuer, http.Handler) {
	t.Helper()
	i, err := signin.Open(dir, url, clock.System{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	i.Mount(mux)
	return i, mux
}

func post(h http.Handler, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("POST", "/_local/sign-in", strings.NewReader(body)))
	return w
}

func authenticator(t *testing.T, env *localtest.Env, i *signin.Issuer) *identity.Authenticator {
	t.Helper()
	verifier, err := i.Verifier()
	require.NoError(t, err)
	a, err := identity.NewAuthenticator(identity.Config{Table: env.Deps.Table, Clock: clock.System{}, SignIn: verifier})
	require.NoError(t, err)
	return a
}

func TestTokenStaysValidAfterRestart(t *testing.T) {
	t.Parallel()
	env, dir := localtest.New(t), t.TempDir()
	first, h := open(t, dir, url)
	w := post(h, `{"email":"Ann@Example.com"}`)
	require.Equal(t, 200, w.Code, "%s", w.Body)
	var answer map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	require.Len(t, answer, 1)
	token := answer["id_token"]

	again, _ := open(t, dir, url)
	for _, i := range []*signin.Issuer{first, again} {
		p, err := authenticator(t, env, i).Authenticate(t.Context(), token, "", false)
		require.NoError(t, err)
		assert.Equal(t, "ann@example.com", p.Email)
	}
	stranger, _ := open(t, t.TempDir(), url)
	_, err := authenticator(t, env, stranger).Authenticate(t.Context(), token, "", false)
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err), "another data directory")
	moved, _ := open(t, dir, "http://127.0.0.1:9090")
	_, err = authenticator(t, env, moved).Authenticate(t.Context(), token, "", false)
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err), "another address")
}

func TestSignInBodyIsStrict(t *testing.T) {
	t.Parallel()
	_, h := open(t, t.TempDir(), url)
	for body, code := range map[string]int{
		``: 422, `{}`: 422, `[]`: 422, `null`: 422, `{"email":null}`: 422, `{"email":7}`: 422, `{"email":""}`: 422,
		`{"email":"ann"}`: 422, `{"Email":"ann@example.com"}`: 422, `{"email":"ann@example.com","role":"owner"}`: 422,
		`{"email":"ann@example.com","email":"bob@example.com"}`: 422, `{"email":"ann@example.com"}{}`: 422,
		`{"email":"Ann <ann@example.com>"}`: 422, `{"email":"` + strings.Repeat("a", 5000) + `@example.com"}`: 413,
		`{"email":"ann@example.com"}`: 200,
	} {
		w := post(h, body)
		assert.Equal(t, code, w.Code, "%s: %s", body, w.Body)
		var answer map[string]any
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
		if code != 200 {
			assert.Contains(t, answer, "detail")
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/_local/sign-in", nil))
	assert.Equal(t, http.StatusMethodNotAllowed, w.Code)
}

func TestTokensCanBeVerifiedByDiscovery(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	server := httptest.NewUnstartedServer(nil)
	server.Start()
	t.Cleanup(server.Close)
	i, h := open(t, t.TempDir(), server.URL)
	server.Config.Handler = h
	token, err := i.Token("ann@example.com")
	require.NoError(t, err)
	remote, err := identity.NewSignIn(identity.SignInConfig{Issuer: server.URL, Audience: signin.Audience, Clock: clock.System{}})
	require.NoError(t, err)
	a, err := identity.NewAuthenticator(identity.Config{Table: env.Deps.Table, Clock: clock.System{}, SignIn: remote})
	require.NoError(t, err)
	p, err := a.Authenticate(t.Context(), token, "", false)
	require.NoError(t, err)
	assert.Equal(t, "ann@example.com", p.Email)
	res := httptest.NewRecorder()
	h.ServeHTTP(res, httptest.NewRequest("GET", signin.KeysPath, nil))
	assert.NotContains(t, res.Body.String(), `"d"`, "the private part is not published")
}

func TestKeyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir, url)
	info, err := os.Stat(filepath.Join(dir, "signin.key"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, files, 1, "nothing temporary is left")
	for _, content := range []string{"", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "signin.key"), []byte(content), 0o600))
		_, err := signin.Open(dir, url, clock.System{})
		assert.ErrorContains(t, err, "signin.key", "a damaged key is not replaced in silence")
	}
	_, err = signin.Open(filepath.Join(dir, "absent"), url, clock.System{})
	assert.Error(t, err)
}

func ensure(t *testing.T, env *localtest.Env, dir, url string, tbl table.Table) (signin.Credentials, error) {
	t.Helper()
	return signin.EnsureCredentials(t.Context(), dir, url, tbl, env.Clock)
}

func TestCredentialsAreCreatedOnce(t *testing.T) {
	t.Parallel()
	env, dir := localtest.New(t), t.TempDir()
	path := filepath.Join(dir, "credentials.json")
	first, err := ensure(t, env, dir, url, env.Deps.Table)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	var stored map[string]string
	read := func() {
		stored = nil
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(data, &stored))
	}
	read()
	assert.Equal(t, map[string]string{
		"base_url": url, "org_id": first.OrgID, "email": first.Email, "api_key": first.APIKey, "local_secret": first.LocalSecret,
		"aws_access_key_id": first.AWSAccessKeyID, "aws_secret_access_key": first.AWSSecretAccessKey,
	}, stored)
	assert.Greater(t, len(first.LocalSecret), 40)
	assert.Regexp(t, `^MILLRACE[A-Z2-7]{12}$`, first.AWSAccessKeyID)
	assert.Len(t, first.AWSSecretAccessKey, 40)
	i, _ := open(t, dir, url)
	works := func(c signin.Credentials) error {
		_, err := authenticator(t, env, i).Authenticate(t.Context(), c.APIKey, "", true)
		return err
	}
	require.NoError(t, works(first))

	again, err := ensure(t, env, dir, url, env.Deps.Table)
	require.NoError(t, err)
	assert.Equal(t, first, again)

	moved, err := ensure(t, env, dir, "http://127.0.0.1:9090", env.Deps.Table)
	require.NoError(t, err)
	assert.Equal(t, first.APIKey, moved.APIKey)
	read()
	assert.Equal(t, "http://127.0.0.1:9090", stored["base_url"])

	// A file of an earlier version lacks some fields and can be read by others.
	delete(stored, "aws_access_key_id")
	delete(stored, "aws_secret_access_key")
	old, err := json.Marshal(stored)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, old, 0o600))
	added, err := ensure(t, env, dir, url, env.Deps.Table)
	require.NoError(t, err)
	assert.Equal(t, first.LocalSecret, added.LocalSecret)
	assert.NotEqual(t, first.AWSSecretAccessKey, added.AWSSecretAccessKey)
	read()
	assert.Equal(t, added.AWSSecretAccessKey, stored["aws_secret_access_key"])
	require.NoError(t, os.Chmod(path, 0o644))
	same, err := ensure(t, env, dir, url, env.Deps.Table)
	require.NoError(t, err)
	assert.Equal(t, added, same)
	info, err = os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "the owner's alone again")

	for _, damage := range []string{"", "{", `{"api_key":"svc_nonsense","org_id":"` + first.OrgID + `"}`} {
		require.NoError(t, os.WriteFile(path, []byte(damage), 0o600))
		before, err := identity.NewKeys(record.Store{Table: env.Deps.Table}).List(tenant.With(t.Context(), tenant.Principal{OrgID: first.OrgID}))
		require.NoError(t, err)
		repaired, err := ensure(t, env, dir, url, env.Deps.Table)
		require.NoError(t, err)
		assert.Equal(t, first.OrgID, repaired.OrgID)
		require.NoError(t, works(repaired))
		after, err := identity.NewKeys(record.Store{Table: env.Deps.Table}).List(tenant.With(t.Context(), tenant.Principal{OrgID: first.OrgID}))
		require.NoError(t, err)
		assert.Len(t, after, len(before), "the lost key is gone")
	}
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(works(first)))
}

// dying applies the transaction and then fails, like a server killed before it
// wrote the file.
type dying struct{ table.Table }

func (d dying) Transact(ctx context.Context, writes ...table.Write) error {
	return errors.Join(d.Table.Transact(ctx, writes...), errors.New("killed"))
}

func TestInterruptedFirstStartIsCompleted(t *testing.T) {
	t.Parallel()
	env, dir := localtest.New(t), t.TempDir()
	_, err := ensure(t, env, dir, url, dying{env.Deps.Table})
	require.Error(t, err)
	_, err = os.Stat(filepath.Join(dir, "credentials.json"))
	require.ErrorIs(t, err, os.ErrNotExist)

	got, err := ensure(t, env, dir, url, env.Deps.Table)
	require.NoError(t, err)
	ms, err := identity.Memberships(t.Context(), env.Deps.Table, signin.FirstOwner)
	require.NoError(t, err)
	require.Len(t, ms, 1, "one workspace, not two")
	assert.Equal(t, got.OrgID, ms[0].OrgID)
	keys, err := identity.NewKeys(record.Store{Table: env.Deps.Table}).List(tenant.With(t.Context(), tenant.Principal{OrgID: got.OrgID}))
	require.NoError(t, err)
	assert.Len(t, keys, 1)
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	now := time.Now().Add(-2 * time.Hour)
	i, err := signin.Open(t.TempDir(), url, clock.Func(func() time.Time { return now }))
	require.NoError(t, err)
	token, err := i.Token("ann@example.com")
	require.NoError(t, err)
	_, err = authenticator(t, env, i).Authenticate(t.Context(), token, "", false)
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err))
}
