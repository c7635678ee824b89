package signin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"millrace/shared/account/identity"
	"millrace/shared/platform/ids"
	"millrace/shared/web/fn"
)

// callbackPath ends the only redirect URIs, which are of this server.
const callbackPath = "/cli-callback"

// grantLifetime is how long an authorization code is valid, and maxGrants how
// many of them are kept.
const (
	grantLifetime = time.Minute
	maxGrants     = 100
)

// signed is a sign-in that was completed in a browser, until its code is
// exchanged.
type signed struct {
	email, nonce, redirect, challenge string
	until                             time.Time
}

//go:embed page.html
var pageText string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("sign-in").Parse(pageText)) })

// pagePolicy lets the page load nothing and send its form to this server only.
var pagePolicy = sync.OnceValue(func() string {
	_, rest, _ := strings.Cut(pageText, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
})

// Page returns the sign-in of the page of this server, without requests to it.
func (i *Issuer) Page() fn.SignIn {
	return fn.SignIn{
		Issuer: i.url, Client: Audience, Callback: i.url + callbackPath,
		Authorize: i.url + AuthorizePath, Token: i.url + TokenPath,
	}
}

// request is an authorization request (OpenID Connect, code with PKCE).
type request struct {
	ClientID, Redirect, State, Nonce, Challenge string
	Email, Fault                                string
}

// read reads and checks a request. fault tells what is wrong with it; nothing
// may then be sent to its redirect URI.
func (i *Issuer) read(v url.Values) (r request, fault string) {
	r = request{
		ClientID: v.Get("client_id"), Redirect: v.Get("redirect_uri"), State: v.Get("state"), Nonce: v.Get("nonce"),
		Challenge: v.Get("code_challenge"), Email: v.Get("email"),
	}
	switch {
	case v.Get("response_type") != "code":
		return r, "response_type must be code"
	case r.ClientID != Audience:
		return r, "client_id is unknown"
	case !i.own(r.Redirect):
		return r, "redirect_uri is not the page of this server"
	case v.Get("code_challenge_method") != "S256" || len(r.Challenge) != base64.RawURLEncoding.EncodedLen(sha256.Size):
		return r, "code_challenge must be one of S256"
	case r.State == "" || len(r.State) > 512 || len(r.Nonce) > 512:
		return r, "state is missing, or state or nonce is too long"
	}
	return r, ""
}

// own reports whether a redirect URI is the page of this server.
func (i *Issuer) own(redirect string) bool {
	return strings.HasPrefix(redirect, i.url+"/") && strings.HasSuffix(redirect, callbackPath) && !strings.ContainsAny(redirect, "?#\\") //guard:local/redirect true
}

// authorize shows the page, and the one-time code to the operator.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	req, fault := i.read(r.URL.Query())
	if fault != "" {
		write(w, http.StatusBadRequest, map[string]any{"detail": fault})
		return
	}
	if !i.codes.ask(i.clock.Now()) {
		write(w, http.StatusServiceUnavailable, map[string]any{"detail": "This server can show no one-time code, so no browser can sign in"})
		return
	}
	req.Email = FirstOwner
	show(w, http.StatusOK, req)
}

// confirm takes the form of the page: it signs in who knows the one-time code.
func (i *Issuer) confirm(w http.ResponseWriter, r *http.Request) {
	form, ok := readForm(w, r)
	if !ok {
		return
	}
	req, fault := i.read(form)
	if fault != "" {
		write(w, http.StatusBadRequest, map[string]any{"detail": fault})
		return
	}
	email, err := identity.ParseEmail(strings.TrimSpace(req.Email))
	if err != nil {
		req.Fault = "This is not a valid email address."
		show(w, http.StatusUnprocessableEntity, req)
		return
	}
	now := i.clock.Now()
	if !i.codes.take(form.Get("code"), now) {
		i.codes.ask(now)
		req.Fault = "This is not the code that the server shows now."
		show(w, http.StatusForbidden, req)
		return
	}
	code := i.grant(signed{email, req.Nonce, req.Redirect, req.Challenge, now.Add(grantLifetime)}, now)
	back := url.Values{"code": {code}, "state": {req.State}}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, req.Redirect+"?"+back.Encode(), http.StatusSeeOther)
}

// grant keeps a completed sign-in and returns its authorization code.
func (i *Issuer) grant(s signed, now time.Time) string {
	i.codes.mu.Lock()
	defer i.codes.mu.Unlock()
	for code, old := range i.grants {
		if !now.Before(old.until) || len(i.grants) >= maxGrants {
			delete(i.grants, code)
		}
	}
	code := ids.Token(32)
	i.grants[code] = s
	return code
}

// exchange exchanges an authorization code for an ID token, once.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	form, ok := readForm(w, r)
	if !ok {
		return
	}
	code := form.Get("code")
	i.codes.mu.Lock()
	s, found := i.grants[code]
	delete(i.grants, code)
	i.codes.mu.Unlock()
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	proof := base64.RawURLEncoding.EncodeToString(sum[:])
	if !found || !i.clock.Now().Before(s.until) || form.Get("grant_type") != "authorization_code" || form.Get("client_id") != Audience ||
		form.Get("redirect_uri") != s.redirect || subtle.ConstantTimeCompare([]byte(proof), []byte(s.challenge)) != 1 { //guard:local/pkce false
		write(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant", "error_description": "The code is unknown, has expired or was used"})
		return
	}
	token, err := i.token(s.email, s.nonce)
	if err != nil {
		write(w, http.StatusInternalServerError, map[string]any{"error": "server_error"})
		return
	}
	write(w, http.StatusOK, map[string]any{
		"id_token": token, "access_token": token, "token_type": "Bearer", "expires_in": int(lifetime.Seconds()),
	})
}

// readForm reads a form, and answers 400 if there is none.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, bool) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		write(w, http.StatusBadRequest, map[string]any{"detail": "The form cannot be read", "error": "invalid_request"})
		return nil, false
	}
	return r.PostForm, true
}

func show(w http.ResponseWriter, status int, req request) {
	var out bytes.Buffer
	if err := page().Execute(&out, req); err != nil {
		write(w, http.StatusInternalServerError, map[string]any{"detail": "Internal server error"})
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", pagePolicy())
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // the client has disconnected
}
