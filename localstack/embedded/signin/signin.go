// Package signin is the identity provider of a server of one's own: an OpenID
// Connect issuer that signs in whoever asks, under any email. It stands in for
// the web sign-in and belongs to no deployment.
//
// It also keeps what the first start gives: see [EnsureCredentials].
package signin

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"millrace/shared/account/identity"
	"millrace/shared/platform/clock"
)

// Audience is the client id in every token.
const Audience = "millrace"

// lifetime is how long a token holds.
const lifetime = time.Hour

// Issuer signs in users of one data directory.
type Issuer struct {
	url    string
	clock  clock.Clock
	signer jose.Signer
	public ed25519.PublicKey
	keyID  string
}

// Open opens the issuer of a data directory. Its key, made at the first start,
// is kept there (mode 0600), so tokens hold over a restart. url is the
// server's base URL and becomes the tokens' issuer.
func Open(dir, url string, now clock.Clock) (*Issuer, error) {
	key, err := loadKey(dir)
	if err != nil {
		return nil, err
	}
	i := &Issuer{url: strings.TrimSuffix(url, "/"), clock: now, public: key.Public().(ed25519.PublicKey)}
	sum := sha256.Sum256(i.public)
	i.keyID = hex.EncodeToString(sum[:8])
	i.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: i.keyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	return i, err
}

// Verifier accepts the issuer's tokens, without a request to itself.
func (i *Issuer) Verifier() (*identity.SignIn, error) {
	return identity.NewSignIn(identity.SignInConfig{
		Issuer: i.url, Audience: Audience, Clock: i.clock,
		Keys: &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{i.public}},
	})
}

// tokenClaims are the claims of a token beyond the registered ones.
type tokenClaims struct {
	jwt.Claims
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
}

// Token signs a user in: it returns an ID token for the email, good for an
// hour. Errors: errs.Invalid for an email that is none.
func (i *Issuer) Token(email string) (string, error) {
	email, err := identity.ParseEmail(email)
	if err != nil {
		return "", err
	}
	now := i.clock.Now()
	subject := sha256.Sum256([]byte(email))
	return jwt.Signed(i.signer).Claims(tokenClaims{
		Claims: jwt.Claims{
			Issuer: i.url, Audience: jwt.Audience{Audience}, Subject: hex.EncodeToString(subject[:16]),
			IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
			Expiry: jwt.NewNumericDate(now.Add(lifetime)),
		},
		Email: email, EmailVerified: true,
	}).Serialize()
}

// jwks is the issuer's published key set.
func (i *Issuer) jwks() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: i.public, KeyID: i.keyID, Algorithm: string(jose.EdDSA), Use: "sig"},
	}}
}
