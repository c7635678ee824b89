package identity_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
)

// TestCognitoTokens signs in with tokens as a Cognito user pool issues them: RS256,
// with the names, claims and types of its ID and access tokens.
func TestCognitoTokens(t *testing.T) {
	t.Parallel()
	const pool, client = "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_Ex4mpl3", "7h1s1s4nex4mpl3cl1ent1dxxx"
	key := newRSA(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "abcdefgh=", Algorithm: "RS256", Use: "sig"}}})
	}))
	t.Cleanup(server.Close)
	at := clock.Func(func() time.Time { return start })
	signIn, err := identity.NewSignIn(identity.SignInConfig{Issuer: pool, Audience: client, JWKSURL: server.URL, Clock: at})
	require.NoError(t, err)
	a, err := identity.NewAuthenticator(identity.Config{Table: localtest.New(t).Deps.Table, Clock: at, SignIn: signIn})
	require.NoError(t, err)

	now := start.Unix()
	idToken := map[string]any{
		"sub": "02c5a4f4-1031-70c5-7a3b-4d2e7c0d1f11", "aud": client, "iss": pool, "token_use": "id", "auth_time": now, "iat": now, "exp": now + 3600,
		"cognito:username": "02c5a4f4-1031-70c5-7a3b-4d2e7c0d1f11", "email": "Ann@example.com", "email_verified": true,
		"at_hash": "t3BaLyL5x1wqUlg9V4J7Yw", "origin_jti": "5b9f50a3-05da-454a-8b99-b79c2349de77", "event_id": "f4f8e1d1-0f8e-4b4b-9f3a-3f8b7d7f8f1a", "jti": "3fd94d45-53b2-4a1b-a4c5-9f4c87a9d10e",
	}
	accessToken := map[string]any{
		"sub": idToken["sub"], "client_id": client, "iss": pool, "token_use": "access", "auth_time": now, "iat": now, "exp": now + 3600,
		"scope": "openid email", "username": idToken["sub"], "version": 2, "jti": "9f4c87a9-53b2-4a1b-a4c5-3fd94d45d10e",
	}
	with := func(claims map[string]any, name string, value any) map[string]any {
		out := map[string]any{name: value}
		for k, v := range claims {
			if k != name {
				out[k] = v
			}
		}
		return out
	}
	for name, c := range map[string]struct {
		claims map[string]any
		code   errs.Code
	}{
		"id token":             {idToken, ""},
		"verified as a string": {with(idToken, "email_verified", "true"), ""}, // of a user of another provider
		"new address":          {with(idToken, "email_verified", false), errs.Forbidden},
		"another client":       {with(idToken, "aud", "0th3rcl1ent"), errs.Unauthenticated},
		"another pool":         {with(idToken, "iss", "https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_0th3r"), errs.Unauthenticated},
		"access token":         {accessToken, errs.Unauthenticated},
	} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.RS256, Key: jose.JSONWebKey{Key: key, KeyID: "abcdefgh="}}, nil)
		require.NoError(t, err)
		data, err := json.Marshal(c.claims)
		require.NoError(t, err)
		signed, err := signer.Sign(data)
		require.NoError(t, err)
		token, err := signed.CompactSerialize()
		require.NoError(t, err)
		got, err := a.Authenticate(t.Context(), token, "", false)
		assert.Equal(t, c.code, errs.CodeOf(err), "%s: %v", name, err)
		if err == nil {
			assert.Equal(t, "ann@example.com", got.Email, name)
		}
	}
}
