// Package signin is the identity provider of a self-hosted server: an OpenID
// Connect issuer that signs in anyone under any email, who has the server's
// local secret or, in a browser, a one-time code that the server shows to its
// operator. It replaces the web sign-in and is not part of a deployment.
//
// It also stores the credentials of the first start: see [EnsureCredentials].
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

// lifetime is the validity of a token.
const lifetime = time.Hour

// Issuer issues tokens for a data directory.
type Issuer struct {
	url    string
	clock  clock.Clock
	signer jose.Signer
	public ed25519.PublicKey
	keyID  string

	codes  codes             // that browsers are asked for
	grants map[string]signed // authorization codes of sign-ins that were completed, guarded by codes.mu
}

// Open opens the issuer of a data directory. Its key is created on the first
// start and stored there (mode 0600), so tokens stay valid after a restart. url
// is the server's base URL and becomes the issuer of its tokens.
func Open(dir, url string, now clock.Clock) (*Issuer, error) {
	key, err := loadKey(dir)
	if err != nil {
		return nil, err
	}
	i := &Issuer{url: strings.TrimSuffix(url, "/"), clock: now, public: key.Public().(ed25519.PublicKey), grants: map[string]signed{}}
	sum := sha256.Sum256(i.public)
	i.keyID = hex.EncodeToString(sum[:8])
	i.signer, err = jose.NewSigner(
		jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: key, KeyID: i.keyID}},
		(&jose.SignerOptions{}).WithType("JWT"))
	return i, err
}

// Verifier returns a SignIn that accepts the issuer's tokens without requests
// to it.
func (i *Issuer) Verifier() (*identity.SignIn, error) {
	return identity.NewSignIn(identity.SignInConfig{
		Issuer: i.url, Audience: Audience, Clock: i.clock,
		Keys: &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{i.public}},
	})
}

// tokenClaims are the claims of a token besides the registered ones.
type tokenClaims struct {
	jwt.Claims
	Email         string `json:"email"`
	EmailVerified bool   `json:"email_verified"`
	Nonce         string `json:"nonce,omitempty"`
}

// Token returns an ID token for an email, valid for an hour. Errors:
// errs.Invalid for an invalid email.
func (i *Issuer) Token(email string) (string, error) { return i.token(email, "") }

func (i *Issuer) token(email, nonce string) (string, error) {
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
		Email: email, EmailVerified: true, Nonce: nonce,
	}).Serialize()
}

// jwks returns the issuer's public key set.
func (i *Issuer) jwks() jose.JSONWebKeySet {
	return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: i.public, KeyID: i.keyID, Algorithm: string(jose.EdDSA), Use: "sig"},
	}}
}
