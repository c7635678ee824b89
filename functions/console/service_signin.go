package console

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"millrace/shared/account/identity"
	"millrace/shared/platform/errs"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// The page at which a signed-in user approves the authorization of a device.
var (
	//go:embed signin/page.html
	signInPage string
	//go:embed signin/page.js
	signInScript []byte
)

// signIn serves the page and knows the identity provider.
type signIn struct {
	fn.SignIn
	client *http.Client // nil: one with a time-out

	mu sync.Mutex // held while the provider's endpoints are read
}

func newSignIn(c fn.Config) *signIn {
	s := &signIn{SignIn: c.SignIn}
	if s.Callback == "" {
		s.Callback = c.URL + "/cli-callback"
	}
	return s
}

// endpoints returns the sign-in with the provider's endpoints, which are read
// once. Errors: errs.Unavailable.
func (s *signIn) endpoints(ctx context.Context) (fn.SignIn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Issuer == "" || s.Authorize != "" {
		return s.SignIn, nil
	}
	d, err := identity.Discover(ctx, s.client, s.Issuer)
	if err == nil {
		for _, endpoint := range []string{d.Authorize, d.Token} {
			if u, fault := url.Parse(endpoint); fault != nil || u.Host == "" || u.Scheme != "https" && !strings.HasPrefix(s.Issuer, "http://") {
				err = fmt.Errorf("the discovery document of %q names the endpoint %q", s.Issuer, endpoint)
			}
		}
	}
	if err != nil {
		return fn.SignIn{}, errs.Wrap(errs.Unavailable, err, "The identity provider's sign-in cannot be found at the moment")
	}
	s.Authorize, s.Token = d.Authorize, d.Token
	return s.SignIn, nil
}

// page serves GET /cli-callback. Errors: errs.Unavailable.
func (s *signIn) page(ctx context.Context, _ *httpapi.None) (httpapi.File, error) {
	at, err := s.endpoints(ctx)
	if err != nil {
		return httpapi.File{}, err
	}
	text := strings.NewReplacer(
		"{{authorize}}", html.EscapeString(at.Authorize), "{{token}}", html.EscapeString(at.Token),
		"{{client}}", html.EscapeString(at.Client), "{{callback}}", html.EscapeString(at.Callback),
	).Replace(signInPage)
	return httpapi.File{Type: htmlType, Data: []byte(text), Cache: "no-store", Header: http.Header{
		"Content-Security-Policy": {signInPolicy(at.Token)}, "Referrer-Policy": {"no-referrer"}, "Cross-Origin-Opener-Policy": {"same-origin"},
	}}, nil
}

// signInPolicy lets the page load its script and its style, and call the API
// and the provider's token endpoint.
func signInPolicy(token string) string {
	connect := "'self'"
	if u, err := url.Parse(token); err == nil && u.Host != "" {
		connect += " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; script-src 'self'; style-src '" + styleHash() + "'; connect-src " + connect +
		"; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
}

// styleHash is the hash of the page's style for the policy.
var styleHash = sync.OnceValue(func() string {
	_, rest, _ := strings.Cut(signInPage, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
})

// script serves GET /cli-callback/page.js.
func (s *signIn) script(context.Context, *httpapi.None) (httpapi.File, error) {
	return httpapi.File{Type: javaScript, Data: signInScript}, nil
}
