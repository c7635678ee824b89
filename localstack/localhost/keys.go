package localhost

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Keys are the credentials for the routes besides the API. A peer's address is
// not one of them: user code on this machine, and clients of a reverse proxy,
// come from loopback, too.
type Keys struct {
	Secret          string // bearer token; "" matches none
	AccessKeyID     string // of requests signed with AWS Signature Version 4
	SecretAccessKey string
}

// where is the end of error messages.
const where = " of credentials.json in the server's data directory"

// AuthError is the error of a request without a valid credential.
type AuthError struct {
	Kind    string // in AWS's terms, e.g. InvalidSignatureException
	Message string // for the sender
}

// Error returns the message.
func (r *AuthError) Error() string { return r.Message }

// Bearer passes on requests with the secret as their bearer token, and answers
// 401 to all others.
func (k Keys) Bearer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, sent := bearer(r)
		switch {
		case !sent:
			unauthorized(w, "Not authenticated: send the local_secret"+where+" as bearer token")
		case !k.opens(token):
			unauthorized(w, "Invalid credential: the bearer token is not the local_secret"+where)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// Check checks the credential of a call of the Invoke API before its body is
// read: a bearer token as for [Keys.Bearer], or a signature. verify checks the
// part that depends on the body; it must be called before the call has any
// effect. Errors: *AuthError.
func (k Keys) Check(r *http.Request, now time.Time) (verify func(body []byte) error, err error) {
	token, sent := bearer(r)
	switch {
	case sent && k.opens(token):
		return func([]byte) error { return nil }, nil
	case sent:
		return nil, &AuthError{"UnrecognizedClientException", "The bearer token is not the local_secret" + where}
	case !strings.HasPrefix(r.Header.Get("Authorization"), algorithm):
		return nil, &AuthError{"MissingAuthenticationTokenException",
			"Not authenticated: sign with aws_access_key_id and aws_secret_access_key" + where + ", or send its local_secret as bearer token"}
	}
	return k.checkSignature(r, now)
}

// opens compares in constant time.
func (k Keys) opens(token string) bool {
	return k.Secret != "" && subtle.ConstantTimeCompare([]byte(token), []byte(k.Secret)) == 1 //guard:local/secret true
}

// bearer returns the bearer token of a request.
func bearer(r *http.Request) (token string, sent bool) {
	headers := r.Header["Authorization"]
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

func unauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("WWW-Authenticate", "Bearer")
	w.WriteHeader(http.StatusUnauthorized)
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail}) // the client may have disconnected
}
