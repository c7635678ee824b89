package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
)

// leeway is the tolerated difference between the issuer's clock and ours.
const leeway = time.Minute

// SignInConfig describes the identity provider whose tokens are accepted.
type SignInConfig struct {
	Issuer   string // exactly as in the tokens' iss
	Audience string // the client id that their aud must contain
	// Keys are the provider's signing keys. If nil, they are fetched from JWKSURL
	// when the first token arrives.
	Keys oidc.KeySet
	// JWKSURL is the URL of the key set; "" means the one in the issuer's
	// discovery document.
	JWKSURL string
	// Client fetches keys; nil means one with a time-out of 5 s.
	Client *http.Client
	Clock  clock.Clock
}

// SignIn checks sign-in tokens.
type SignIn struct{ verifier *oidc.IDTokenVerifier }

// algorithms are the accepted asymmetric signatures. The key determines which
// of them apply.
var algorithms = []string{oidc.RS256, oidc.ES256, oidc.EdDSA}

// NewSignIn returns a SignIn. It fetches nothing yet. Errors: errs.Invalid
// without an issuer, an audience or a clock.
func NewSignIn(c SignInConfig) (*SignIn, error) {
	if c.Issuer == "" || c.Audience == "" || c.Clock == nil {
		return nil, errs.New(errs.Invalid, "sign-in needs an issuer, an audience and a clock")
	}
	if c.Keys == nil {
		c.Keys = newRemoteKeys(c)
	}
	return &SignIn{oidc.NewVerifier(c.Issuer, c.Keys, &oidc.Config{
		ClientID:             c.Audience,
		SupportedSigningAlgs: algorithms,
		// Times are checked below: the library tolerates an nbf five minutes ahead
		// and does not check iat.
		SkipExpiryCheck: true,
	})}, nil
}

// claims are the required claims besides issuer and audience.
type claims struct {
	Expiry        *float64        `json:"exp"`
	NotBefore     *float64        `json:"nbf"`
	IssuedAt      *float64        `json:"iat"`
	Email         string          `json:"email"`
	EmailVerified json.RawMessage `json:"email_verified"`
}

// email returns the verified email of a token, in its stored form. Errors:
// errs.Unauthenticated for an invalid token, errs.Forbidden for an email that
// is missing or not verified, errs.Unavailable if the provider's keys cannot be
// fetched.
func (s *SignIn) email(ctx context.Context, token string, now time.Time) (string, error) {
	// The library does not wrap a key set's error, so it is passed in the context.
	var unreachable error
	id, err := s.verifier.Verify(context.WithValue(ctx, unreachableKey{}, &unreachable), token)
	if unreachable != nil {
		return "", errs.Wrap(errs.Unavailable, unreachable, "the identity provider's keys cannot be read at the moment")
	}
	if err != nil {
		return "", errCredential(err)
	}
	var c claims
	if err := id.Claims(&c); err != nil {
		return "", errCredential(err)
	}
	if err := c.checkTimes(now); err != nil {
		return "", errCredential(err)
	}
	switch strings.Trim(strings.ToLower(string(c.EmailVerified)), `"`) {
	case "", "true": // absent is accepted
	default:
		return "", errs.New(errs.Forbidden, "the sign-in token's email is not verified")
	}
	if c.Email == "" {
		return "", errs.New(errs.Forbidden, "the sign-in token has no email")
	}
	email, err := ParseEmail(c.Email)
	if err != nil {
		return "", errs.Wrap(errs.Forbidden, err, "the sign-in token's email is not a valid address")
	}
	return email, nil
}

// checkTimes compares the token's times, which may have fractions of a second,
// with the clock.
func (c claims) checkTimes(now time.Time) error {
	const ms = float64(time.Second / time.Millisecond)
	at := float64(now.UnixMilli()) / ms
	slack := leeway.Seconds()
	switch {
	case c.Expiry == nil:
		return errors.New("token has no exp")
	case at >= *c.Expiry+slack:
		return errors.New("token has expired")
	case c.IssuedAt == nil:
		return errors.New("token has no iat")
	case *c.IssuedAt > at+slack:
		return fmt.Errorf("token was issued in the future (iat %v)", *c.IssuedAt)
	case c.NotBefore != nil && *c.NotBefore > at+slack:
		return fmt.Errorf("token is not valid yet (nbf %v)", *c.NotBefore)
	}
	return nil
}
