package signin

import (
	"encoding/json"
	"io"
	"net/http"

	strict "github.com/go-json-experiment/json"

	"millrace/shared/platform/errs"
)

// The paths of the issuer.
const (
	DiscoveryPath = "/.well-known/openid-configuration"
	KeysPath      = "/.well-known/jwks.json"
	SignInPath    = "/_local/sign-in"
	AuthorizePath = "/_local/authorize"
	TokenPath     = "/_local/token"
)

// ForBrowsers reports whether a path is one that browsers use to sign in,
// without the local secret.
func ForBrowsers(path string) bool { return path == AuthorizePath || path == TokenPath }

// maxBody is the largest body of a sign-in request, in bytes.
const maxBody = 4 << 10

// Mount adds the issuer's routes to a mux: discovery document, key set, the
// sign-in of browsers by authorization code with PKCE, and POST /_local/sign-in
// {"email"}, which returns {"id_token"}.
func (i *Issuer) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET "+DiscoveryPath, func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, map[string]any{
			"issuer":                                i.url,
			"jwks_uri":                              i.url + KeysPath,
			"authorization_endpoint":                i.url + AuthorizePath,
			"token_endpoint":                        i.url + TokenPath,
			"id_token_signing_alg_values_supported": []string{"EdDSA"},
			"response_types_supported":              []string{"code"},
			"grant_types_supported":                 []string{"authorization_code"},
			"code_challenge_methods_supported":      []string{"S256"},
			"token_endpoint_auth_methods_supported": []string{"none"},
			"subject_types_supported":               []string{"public"},
		})
	})
	mux.HandleFunc("GET "+KeysPath, func(w http.ResponseWriter, _ *http.Request) {
		write(w, http.StatusOK, i.jwks())
	})
	mux.HandleFunc("POST "+SignInPath, i.signIn)
	mux.HandleFunc("GET "+AuthorizePath, i.authorize)
	mux.HandleFunc("POST "+AuthorizePath, i.confirm)
	mux.HandleFunc("POST "+TokenPath, i.exchange)
}

func (i *Issuer) signIn(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		write(w, http.StatusRequestEntityTooLarge, map[string]any{"detail": "Request body too large"})
		return
	}
	var body struct {
		Email *string `json:"email"`
	}
	if err := strict.Unmarshal(data, &body, strict.RejectUnknownMembers(true)); err != nil {
		reject(w, errs.Detail{Type: "json_invalid", Loc: errs.Body(), Msg: `body must be {"email": "…"}`})
		return
	}
	if body.Email == nil {
		reject(w, errs.Detail{Type: "missing", Loc: errs.Body("email"), Msg: "email is required"})
		return
	}
	token, err := i.Token(*body.Email)
	if errs.CodeOf(err) == errs.Invalid {
		reject(w, errs.Detail{Type: "value_error", Loc: errs.Body("email"), Msg: "not a valid email address", Input: *body.Email})
		return
	}
	if err != nil {
		write(w, http.StatusInternalServerError, map[string]any{"detail": "Internal server error"})
		return
	}
	write(w, http.StatusOK, map[string]any{"id_token": token})
}

func reject(w http.ResponseWriter, d errs.Detail) {
	write(w, http.StatusUnprocessableEntity, map[string]any{"detail": []errs.Detail{d}})
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has disconnected
}
