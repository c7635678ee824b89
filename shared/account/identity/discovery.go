package identity

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Discovery is what the service uses of an issuer's discovery document.
type Discovery struct {
	Issuer    string `json:"issuer"`
	Keys      string `json:"jwks_uri"`
	Authorize string `json:"authorization_endpoint"`
	Token     string `json:"token_endpoint"`
}

func newClient() *http.Client { return &http.Client{Timeout: fetchTimeout} }

// Discover fetches the discovery document of an issuer. client may be nil; then
// it has a time-out of 5 s. An error means that the document cannot be read or
// is another issuer's.
func Discover(ctx context.Context, client *http.Client, issuer string) (Discovery, error) {
	if client == nil {
		client = newClient()
	}
	at := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	var d Discovery
	if err := getJSON(ctx, client, at, &d); err != nil {
		return Discovery{}, err
	}
	if d.Issuer != issuer {
		return Discovery{}, fmt.Errorf("%s is not of issuer %q", at, issuer)
	}
	return d, nil
}
