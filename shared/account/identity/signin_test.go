package identity_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
)

const issuer, audience = "https://id.example.com", "millrace-web"

var start = time.Date(2026, 5, 4, 3, 2, 1, 500e6, time.UTC)

// provider signs tokens and serves its keys.
type provider struct {
	public  ed25519.PublicKey
	private ed25519.PrivateKey
	keyID   string
}

func newProvider(t *testing.T, keyID string) provider {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return provider{public, private, keyID}
}

func (p provider) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: p.private, KeyID: p.keyID},
	}, nil)
	require.NoError(t, err)
	data, err := json.Marshal(claims)
	require.NoError(t, err)
	jws, err := signer.Sign(data)
	require.NoError(t, err)
	token, err := jws.CompactSerialize()
	require.NoError(t, err)
	return token
}

func (p provider) keySet() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.public, KeyID: p.keyID, Algorithm: "EdDSA", Use: "sig"}}}
}

// good returns a token's claims with changes; a nil value removes a claim.
func good(changes map[string]any) map[string]any {
	at := start.Unix()
	claims := map[string]any{
		"iss": issuer, "aud": audience, "sub": "u1", "iat": at, "exp": at + 3600,
		"email": "Ann@example.com", "email_verified": true,
	}
	for name, value := range changes {
		if value == nil {
			delete(claims, name)
		} else {
			claims[name] = value
		}
	}
	return claims
}

func verifying(t *testing.T, env *localtest.Env, c identity.SignInConfig) *identity.Authenticator {
	t.Helper()
	c.Issuer, c.Audience = issuer, audience
	signIn, err := identity.NewSignIn(c)
	require.NoError(t, err)
	a, err := identity.NewAuthenticator(identity.Config{Table: env.Deps.Table, Clock: c.Clock, SignIn: signIn})
	require.NoError(t, err)
	return a
}

func TestOnlyTokensOfConfiguredIssuerAreAccepted(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	p, stranger := newProvider(t, "k1"), newProvider(t, "k1")
	a := verifying(t, env, identity.SignInConfig{
		Keys:  &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{p.public}},
		Clock: clock.Func(func() time.Time { return start }),
	})
	at := start.Unix()
	for name, c := range map[string]struct {
		change map[string]any
		code   errs.Code
	}{
		"good":                  {nil, ""},
		"audience list":         {map[string]any{"aud": []string{"x", audience}}, ""},
		"verified absent":       {map[string]any{"email_verified": nil}, ""},
		"verified text":         {map[string]any{"email_verified": "true"}, ""},
		"fractions":             {map[string]any{"iat": float64(at) + 0.25, "exp": float64(at) + 9.75}, ""},
		"another issuer":        {map[string]any{"iss": "https://evil.example.com"}, errs.Unauthenticated},
		"issuer with slash":     {map[string]any{"iss": issuer + "/"}, errs.Unauthenticated},
		"no issuer":             {map[string]any{"iss": nil}, errs.Unauthenticated},
		"another audience":      {map[string]any{"aud": "other"}, errs.Unauthenticated},
		"no audience":           {map[string]any{"aud": nil}, errs.Unauthenticated},
		"expired in leeway":     {map[string]any{"exp": at - 59}, ""},
		"expired":               {map[string]any{"exp": at - 61}, errs.Unauthenticated},
		"no expiry":             {map[string]any{"exp": nil}, errs.Unauthenticated},
		"not yet, in leeway":    {map[string]any{"nbf": at + 59}, ""},
		"not yet":               {map[string]any{"nbf": at + 62}, errs.Unauthenticated},
		"future, in leeway":     {map[string]any{"iat": at + 59}, ""},
		"from the future":       {map[string]any{"iat": at + 62}, errs.Unauthenticated},
		"no issue time":         {map[string]any{"iat": nil}, errs.Unauthenticated},
		"times as text":         {map[string]any{"exp": "tomorrow"}, errs.Unauthenticated},
		"not verified":          {map[string]any{"email_verified": false}, errs.Forbidden},
		"not verified, text":    {map[string]any{"email_verified": "false"}, errs.Forbidden},
		"not verified, capital": {map[string]any{"email_verified": "False"}, errs.Forbidden},
		"verified a number":     {map[string]any{"email_verified": 0}, errs.Forbidden},
		"no email":              {map[string]any{"email": nil}, errs.Forbidden},
		"empty email":           {map[string]any{"email": ""}, errs.Forbidden},
		"kelvin email":          {map[string]any{"email": "\u212aate@example.com"}, errs.Forbidden},
		"email a list":          {map[string]any{"email": []string{"a@b.test"}}, errs.Unauthenticated},
	} {
		got, err := a.Authenticate(t.Context(), p.sign(t, good(c.change)), "", false)
		assert.Equal(t, c.code, errs.CodeOf(err), "%s: %v", name, err)
		if err == nil {
			assert.Equal(t, "ann@example.com", got.Email, name)
		}
		_, err = a.Authenticate(t.Context(), stranger.sign(t, good(c.change)), "", false)
		assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err), "%s, signed by a stranger", name)
	}
	token := p.sign(t, good(nil))
	head, rest, _ := strings.Cut(token, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	body, signature, _ := strings.Cut(rest, ".")
	for _, forged := range []string{
		none + "." + body + ".", none + "." + body + "." + signature, head + "." + body + ".",
		head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+issuer+`"}`)) + "." + signature,
	} {
		_, err := a.Authenticate(t.Context(), forged, "", false)
		assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err))
	}
}

func TestSignInNeedsIssuerAudienceAndClock(t *testing.T) {
	t.Parallel()
	for _, c := range []identity.SignInConfig{
		{Audience: "a", Clock: clock.System{}}, {Issuer: "i", Clock: clock.System{}}, {Issuer: "i", Audience: "a"},
	} {
		_, err := identity.NewSignIn(c)
		assert.Equal(t, errs.Invalid, errs.CodeOf(err))
	}
}

func TestRemoteKeysAreFetchedLazilyAndRarely(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	first, second, stranger := newProvider(t, "k1"), newProvider(t, "k2"), newProvider(t, "k9")
	var fetches atomic.Int64
	var broken atomic.Bool
	published := atomic.Pointer[jose.JSONWebKeySet]{}
	published.Store(new(first.keySet()))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetches.Add(1)
		if broken.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(published.Load())
	}))
	t.Cleanup(server.Close)
	now := start
	a := verifying(t, env, identity.SignInConfig{JWKSURL: server.URL, Clock: clock.Func(func() time.Time { return now })})
	code := func(p provider) errs.Code {
		_, err := a.Authenticate(t.Context(), p.sign(t, good(nil)), "", false)
		return errs.CodeOf(err)
	}
	require.Zero(t, fetches.Load())

	broken.Store(true)
	assert.Equal(t, errs.Unavailable, code(first))
	assert.EqualValues(t, 1, fetches.Load())
	broken.Store(false)
	assert.Equal(t, errs.Unavailable, code(first), "asked again at once")
	assert.EqualValues(t, 1, fetches.Load())

	now = now.Add(time.Minute)
	assert.Empty(t, code(first))
	for range 20 {
		assert.Empty(t, code(first))
		assert.Equal(t, errs.Unauthenticated, code(stranger))
	}
	assert.EqualValues(t, 2, fetches.Load(), "made-up tokens became requests")

	published.Store(new(second.keySet())) // the provider rotates its keys
	now = now.Add(time.Minute)
	assert.Empty(t, code(second))
	assert.Equal(t, errs.Unauthenticated, code(first))
	assert.EqualValues(t, 3, fetches.Load())
}

func TestRemoteKeysByDiscovery(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	p := newProvider(t, "k1")
	for name, c := range map[string]struct {
		issuer string
		code   errs.Code
	}{"own": {"", ""}, "another's": {"https://evil.example.com", errs.Unavailable}} {
		mux := http.NewServeMux()
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		said := server.URL
		if c.issuer != "" {
			said = c.issuer
		}
		mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]string{"issuer": said, "jwks_uri": server.URL + "/keys"})
		})
		mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
			set := p.keySet()
			data, _ := json.Marshal(set.Keys[0])
			// The response also has keys of unknown kinds and shared secrets.
			_, _ = w.Write([]byte(`{"keys":[{"kty":"XYZ"},{"kty":"oct","kid":"k1","k":"c2VjcmV0"},` + string(data) + `]}`))
		})
		signIn, err := identity.NewSignIn(identity.SignInConfig{
			Issuer: server.URL, Audience: audience, Clock: clock.Func(func() time.Time { return start }),
		})
		require.NoError(t, err)
		a, err := identity.NewAuthenticator(identity.Config{Table: env.Deps.Table, Clock: env.Clock, SignIn: signIn})
		require.NoError(t, err)
		env.Clock.Set(start)
		_, err = a.Authenticate(t.Context(), p.sign(t, good(map[string]any{"iss": server.URL})), "", false)
		assert.Equal(t, c.code, errs.CodeOf(err), "%s: %v", name, err)
	}
}
