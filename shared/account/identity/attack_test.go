package identity_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"time"
)

// TestForgedTokensAreRefused tries the known attacks on JWTs against a provider
// that signs with RS256 and publishes its keys.
func TestForgedTokensAreRefused(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	provider, attacker := newRSA(t), newRSA(t)
	var asked atomic.Int64 // requests to the attacker's key set
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: attacker.Public(), KeyID: "k1"}}})
	}))
	t.Cleanup(evil.Close)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: provider.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"},
		}})
	}))
	t.Cleanup(server.Close)
	a := verifying(t, env, identity.SignInConfig{JWKSURL: server.URL, Clock: clock.Func(func() time.Time { return start })})

	type header = map[string]any
	rs256 := func(key *rsa.PrivateKey) func([]byte) []byte {
		return func(text []byte) []byte {
			sum := sha256.Sum256(text)
			out, err := rsa.SignPKCS1v15(nil, key, crypto.SHA256, sum[:])
			require.NoError(t, err)
			return out
		}
	}
	hs256 := func(secret []byte) func([]byte) []byte {
		return func(text []byte) []byte {
			mac := hmac.New(sha256.New, secret)
			mac.Write(text)
			return mac.Sum(nil)
		}
	}
	unsigned := func([]byte) []byte { return nil }
	der, err := x509.MarshalPKIXPublicKey(provider.Public())
	require.NoError(t, err)
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	jwk := jose.JSONWebKey{Key: attacker.Public(), KeyID: "k1", Algorithm: "RS256"}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	at := start.Unix()

	for name, c := range map[string]struct {
		header header
		sign   func([]byte) []byte
		change map[string]any
		want   errs.Code
	}{
		"right":                         {header{"alg": "RS256", "kid": "k1"}, rs256(provider), nil, ""},
		"right, without kid":            {header{"alg": "RS256"}, rs256(provider), nil, ""},
		"alg none":                      {header{"alg": "none"}, unsigned, nil, errs.Unauthenticated},
		"alg None":                      {header{"alg": "None", "kid": "k1"}, unsigned, nil, errs.Unauthenticated},
		"alg none, signed":              {header{"alg": "none", "kid": "k1"}, rs256(provider), nil, errs.Unauthenticated},
		"no alg":                        {header{"kid": "k1"}, rs256(provider), nil, errs.Unauthenticated},
		"unsigned":                      {header{"alg": "RS256", "kid": "k1"}, unsigned, nil, errs.Unauthenticated},
		"HS256 with the public key":     {header{"alg": "HS256", "kid": "k1"}, hs256(public), nil, errs.Unauthenticated},
		"HS256 with the public DER":     {header{"alg": "HS256", "kid": "k1"}, hs256(der), nil, errs.Unauthenticated},
		"HS256 with an empty key":       {header{"alg": "HS256", "kid": "k1"}, hs256(nil), nil, errs.Unauthenticated},
		"RS512 named, RS256 used":       {header{"alg": "RS512", "kid": "k1"}, rs256(provider), nil, errs.Unauthenticated},
		"ES256 by RSA":                  {header{"alg": "ES256", "kid": "k1"}, rs256(provider), nil, errs.Unauthenticated},
		"ES256 of a strange key":        {header{"alg": "ES256", "kid": "k1"}, es256(t, ec), nil, errs.Unauthenticated},
		"strange key":                   {header{"alg": "RS256", "kid": "k1"}, rs256(attacker), nil, errs.Unauthenticated},
		"embedded jwk":                  {header{"alg": "RS256", "jwk": jwk}, rs256(attacker), nil, errs.Unauthenticated},
		"embedded jwk, kid":             {header{"alg": "RS256", "kid": "k1", "jwk": jwk}, rs256(attacker), nil, errs.Unauthenticated},
		"jku":                           {header{"alg": "RS256", "kid": "k1", "jku": evil.URL}, rs256(attacker), nil, errs.Unauthenticated},
		"x5u":                           {header{"alg": "RS256", "kid": "k1", "x5u": evil.URL}, rs256(attacker), nil, errs.Unauthenticated},
		"kid a path":                    {header{"alg": "RS256", "kid": "../../../../dev/null"}, rs256(attacker), nil, errs.Unauthenticated},
		"kid a URL":                     {header{"alg": "RS256", "kid": evil.URL}, rs256(attacker), nil, errs.Unauthenticated},
		"kid SQL":                       {header{"alg": "RS256", "kid": "k1' OR '1'='1"}, rs256(attacker), nil, errs.Unauthenticated},
		"crit unknown":                  {header{"alg": "RS256", "kid": "k1", "crit": []string{"x"}, "x": true}, rs256(provider), nil, errs.Unauthenticated},
		"crit b64":                      {header{"alg": "RS256", "kid": "k1", "crit": []string{"b64"}, "b64": false}, rs256(provider), nil, errs.Unauthenticated},
		"wrong issuer":                  {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"iss": "https://accounts.example.com"}, errs.Unauthenticated},
		"wrong audience":                {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"aud": "another-client"}, errs.Unauthenticated},
		"empty audience":                {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"aud": []string{}}, errs.Unauthenticated},
		"expired":                       {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"exp": at - 3600}, errs.Unauthenticated},
		"never expires":                 {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"exp": nil}, errs.Unauthenticated},
		"not yet valid":                 {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"nbf": at + 240}, errs.Unauthenticated},
		"issued in the future":          {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"iat": at + 240}, errs.Unauthenticated},
		"unverified email":              {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"email_verified": false}, errs.Forbidden},
		"unverified email as text":      {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"email_verified": "false"}, errs.Forbidden},
		"unverified email as a capital": {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"email_verified": "FALSE"}, errs.Forbidden},
		"no email":                      {header{"alg": "RS256", "kid": "k1"}, rs256(provider), map[string]any{"email": nil}, errs.Forbidden},
	} {
		_, err := a.Authenticate(t.Context(), compact(t, c.header, good(c.change), c.sign), "", true)
		assert.Equal(t, c.want, errs.CodeOf(err), "%s: %v", name, err)
	}
	// The token's parts, split and joined otherwise.
	token := compact(t, header{"alg": "RS256", "kid": "k1"}, good(nil), rs256(provider))
	parts := strings.Split(token, ".")
	other := base64.RawURLEncoding.EncodeToString([]byte(`{"email":"root@example.com"}`))
	for _, forged := range []string{
		parts[0] + "." + other + "." + parts[2], token + "=", token + ".", "." + token, parts[0] + ".." + parts[2],
		`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
	} {
		_, err := a.Authenticate(t.Context(), forged, "", true)
		assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err), forged)
	}
	assert.Zero(t, asked.Load(), "keys were fetched from where a token says")
}

func newRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key
}

// compact returns a token of any header, signed anyhow.
func compact(t *testing.T, header, claims map[string]any, sign func([]byte) []byte) string {
	t.Helper()
	head, err := json.Marshal(header)
	require.NoError(t, err)
	body, err := json.Marshal(claims)
	require.NoError(t, err)
	text := base64.RawURLEncoding.EncodeToString(head) + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(sign([]byte(text)))
}

func es256(t *testing.T, key *ecdsa.PrivateKey) func([]byte) []byte {
	return func(text []byte) []byte {
		sum := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
		require.NoError(t, err)
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
}
