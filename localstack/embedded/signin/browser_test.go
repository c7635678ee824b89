package signin_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	neturl "net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/signin"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/clock"
)

const verifier = "a-verifier-of-at-least-forty-three-characters-in-all"

// asked returns an authorization request with changes; an empty value removes a
// parameter.
func asked(changes map[string]string) neturl.Values {
	sum := sha256.Sum256([]byte(verifier))
	v := neturl.Values{
		"response_type": {"code"}, "client_id": {signin.Audience}, "redirect_uri": {url + "/cli-callback"}, "scope": {"openid email"},
		"state": {"s&1"}, "nonce": {"n1"}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	for name, value := range changes {
		v.Set(name, value)
		if value == "" {
			v.Del(name)
		}
	}
	return v
}

// browser is an issuer as a browser sees it, with the codes that it shows.
type browser struct {
	http.Handler
	clock *localtest.Clock
	mu    sync.Mutex
	codes []string
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	b := &browser{clock: &localtest.Clock{}}
	i, err := signin.Open(t.TempDir(), url, b.clock)
	require.NoError(t, err)
	i.Tell(func(code string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.codes = append(b.codes, code)
	})
	mux := http.NewServeMux()
	i.Mount(mux)
	b.Handler = mux
	return b
}

func (b *browser) load(v neturl.Values) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.ServeHTTP(w, httptest.NewRequest("GET", signin.AuthorizePath+"?"+v.Encode(), nil))
	return w
}

func (b *browser) post(path string, v neturl.Values) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", path, strings.NewReader(v.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	b.ServeHTTP(w, r)
	return w
}

// confirm sends the form with a one-time code.
func (b *browser) confirm(code, email string, changes map[string]string) *httptest.ResponseRecorder {
	v := asked(changes)
	v.Set("code", code)
	v.Set("email", email)
	return b.post(signin.AuthorizePath, v)
}

// shown is the last one-time code.
func (b *browser) shown(t *testing.T) string {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NotEmpty(t, b.codes)
	return b.codes[len(b.codes)-1]
}

func exchange(code string, changes map[string]string) neturl.Values {
	v := neturl.Values{
		"grant_type": {"authorization_code"}, "client_id": {signin.Audience}, "redirect_uri": {url + "/cli-callback"},
		"code": {code}, "code_verifier": {verifier},
	}
	for name, value := range changes {
		v.Set(name, value)
	}
	return v
}

func TestBrowserSignsInWithTheOneTimeCode(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	page := b.load(asked(nil))
	require.Equal(t, 200, page.Code, "%s", page.Body)
	policy := page.Header().Get("Content-Security-Policy")
	assert.Contains(t, policy, "default-src 'none'")
	assert.NotContains(t, policy, "unsafe")
	assert.NotContains(t, page.Body.String(), "<script")
	assert.Contains(t, page.Body.String(), `name="state" value="s&amp;1"`)
	code := b.shown(t)
	assert.Regexp(t, "^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$", code)
	assert.NotContains(t, page.Body.String(), code)

	assert.Equal(t, 403, b.confirm("BBBB-BBBB", "ann@example.com", nil).Code)
	assert.Equal(t, 422, b.confirm(code, "ann", nil).Code)
	back := b.confirm(strings.ToLower(code), " Ann@example.com ", nil)
	require.Equal(t, 303, back.Code, "%s", back.Body)
	to, err := neturl.Parse(back.Header().Get("Location"))
	require.NoError(t, err)
	assert.Equal(t, "/cli-callback", to.Path)
	assert.Equal(t, "s&1", to.Query().Get("state"))
	assert.Len(t, to.Query(), 2)
	assert.Equal(t, 403, b.confirm(code, "eve@example.com", nil).Code, "it is good for one sign-in")

	grant := to.Query().Get("code")
	answer := b.post(signin.TokenPath, exchange(grant, nil))
	require.Equal(t, 200, answer.Code, "%s", answer.Body)
	var tokens struct {
		IDToken string `json:"id_token"`
	}
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &tokens))
	body, err := base64.RawURLEncoding.DecodeString(strings.Split(tokens.IDToken, ".")[1])
	require.NoError(t, err)
	var claims map[string]any
	require.NoError(t, json.Unmarshal(body, &claims))
	assert.Equal(t, "ann@example.com", claims["email"])
	assert.Equal(t, "n1", claims["nonce"])
	assert.Equal(t, signin.Audience, claims["aud"])
	assert.Equal(t, 400, b.post(signin.TokenPath, exchange(grant, nil)).Code, "a code is exchanged once")
}

func TestAuthorizationRequestsAreChecked(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for name, change := range map[string]map[string]string{
		"another client":       {"client_id": "other"},
		"implicit flow":        {"response_type": "id_token"},
		"no redirect":          {"redirect_uri": ""},
		"another host":         {"redirect_uri": "https://evil.example.com/cli-callback"},
		"host as user":         {"redirect_uri": url + "@evil.example.com/cli-callback"},
		"host that begins so":  {"redirect_uri": url + "0/cli-callback"},
		"another page":         {"redirect_uri": url + "/docs"},
		"query":                {"redirect_uri": url + "/x?/cli-callback"},
		"fragment":             {"redirect_uri": url + "/x#/cli-callback"},
		"no challenge":         {"code_challenge": ""},
		"plain challenge":      {"code_challenge_method": "plain"},
		"challenge of another": {"code_challenge": "short"},
		"no state":             {"state": ""},
		"long state":           {"state": strings.Repeat("s", 513)},
	} {
		assert.Equal(t, 400, b.load(asked(change)).Code, name)
		res := b.confirm("BBBB-BBBB", "ann@example.com", change)
		assert.Equal(t, 400, res.Code, name)
		assert.Empty(t, res.Header().Get("Location"), name)
	}
	assert.Empty(t, b.codes)
}

func TestCodeIsExchangedByWhoAskedForIt(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for name, change := range map[string]map[string]string{
		"another verifier": {"code_verifier": "x"}, "no verifier": {"code_verifier": ""}, "another client": {"client_id": "x"},
		"another redirect": {"redirect_uri": "https://evil.example.com/cli-callback"}, "another grant": {"grant_type": "password"},
		"unknown code": {"code": "x"}, "late": nil,
	} {
		b.load(asked(nil))
		back := b.confirm(b.shown(t), "ann@example.com", nil)
		require.Equal(t, 303, back.Code)
		to, err := neturl.Parse(back.Header().Get("Location"))
		require.NoError(t, err)
		if change == nil {
			b.clock.Advance(2 * time.Minute)
		}
		grant := to.Query().Get("code")
		assert.Equal(t, 400, b.post(signin.TokenPath, exchange(grant, change)).Code, name)
		if change["code"] == "" {
			assert.Equal(t, 400, b.post(signin.TokenPath, exchange(grant, nil)).Code, "%s: the first attempt used it up", name)
		}
	}
}

func TestWrongOneTimeCodesVoidIt(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.load(asked(nil))
	code := b.shown(t)
	for range 10 {
		assert.Equal(t, 403, b.confirm("BBBB-BBBB", "eve@example.com", nil).Code)
	}
	assert.Equal(t, 403, b.confirm(code, "ann@example.com", nil).Code)
	for range 20 {
		b.load(asked(nil))
	}
	assert.Len(t, b.codes, 1, "no new code at once")
	b.clock.Advance(6 * time.Second)
	b.load(asked(nil))
	assert.NotEqual(t, code, b.shown(t))
	assert.Equal(t, 303, b.confirm(b.shown(t), "ann@example.com", nil).Code)

	b.load(asked(nil))
	old := b.shown(t)
	b.clock.Advance(11 * time.Minute)
	assert.Equal(t, 403, b.confirm(old, "ann@example.com", nil).Code, "it has expired")
}

func TestWithoutATerminalNoBrowserSignsIn(t *testing.T) {
	t.Parallel()
	i, err := signin.Open(t.TempDir(), url, clock.System{})
	require.NoError(t, err)
	mux := http.NewServeMux()
	i.Mount(mux)
	b := &browser{Handler: mux}
	assert.Equal(t, 503, b.load(asked(nil)).Code)
	assert.Equal(t, 403, b.confirm("", "ann@example.com", nil).Code)
}

func TestDiscoveryNamesTheEndpoints(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	w := httptest.NewRecorder()
	b.ServeHTTP(w, httptest.NewRequest("GET", signin.DiscoveryPath, nil))
	assert.Regexp(t, regexp.MustCompile(`"authorization_endpoint":"`+url+signin.AuthorizePath+`"`), w.Body.String())
	assert.Contains(t, w.Body.String(), `"token_endpoint":"`+url+signin.TokenPath+`"`)
}
