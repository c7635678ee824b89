package identity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTimeout  = 5 * time.Second
	fetchInterval = time.Minute // minimum time between two fetches
	maxDocument   = 1 << 20     // bytes of a key set or discovery document
)

// unreachableKey is the context key of an *error that is set if the provider's
// keys could not be fetched.
type unreachableKey struct{}

// remoteKeys is a key set that is fetched on first use, and again if a token
// names an unknown key, but at most once a minute: forged tokens must not
// become requests to the provider.
type remoteKeys struct {
	c SignInConfig

	mu  sync.RWMutex
	set jose.JSONWebKeySet

	fetching sync.Mutex // held while fetching; guards the fields below
	fetched  time.Time
	err      error // of the last fetch
}

func newRemoteKeys(c SignInConfig) *remoteKeys {
	if c.Client == nil {
		c.Client = newClient()
	}
	return &remoteKeys{c: c}
}

// VerifySignature implements oidc.KeySet.
func (r *remoteKeys) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	algs := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, a := range algorithms {
		algs[i] = jose.SignatureAlgorithm(a)
	}
	jws, err := jose.ParseSignedCompact(token, algs)
	if err != nil {
		return nil, err
	}
	if len(jws.Signatures) != 1 {
		return nil, errors.New("token needs exactly one signature")
	}
	kid := jws.Signatures[0].Header.KeyID
	keys, err := r.keys(ctx, kid)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if payload, err := jws.Verify(key); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the provider verifies the signature")
}

// keys returns the keys that a token with this key id may be signed with, or
// all keys if it names none.
func (r *remoteKeys) keys(ctx context.Context, kid string) ([]jose.JSONWebKey, error) {
	if found := r.known(kid); len(found) > 0 {
		return found, nil
	}
	r.fetching.Lock()
	defer r.fetching.Unlock()
	if found := r.known(kid); len(found) > 0 { // fetched while this call waited
		return found, nil
	}
	if now := r.c.Clock.Now(); r.fetched.IsZero() || now.Sub(r.fetched) >= fetchInterval {
		set, err := r.fetch(ctx)
		if ctx.Err() != nil { // the caller left; the provider may be fine
			return nil, ctx.Err()
		}
		r.fetched, r.err = now, err
		if err == nil {
			r.mu.Lock()
			r.set = set
			r.mu.Unlock()
		}
	}
	found := r.known(kid)
	if len(found) == 0 && r.err != nil {
		if unreachable, ok := ctx.Value(unreachableKey{}).(*error); ok {
			*unreachable = r.err
		}
		return nil, r.err
	}
	return found, nil
}

// known returns the fetched keys with this id.
func (r *remoteKeys) known(kid string) []jose.JSONWebKey {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if kid == "" {
		return r.set.Keys
	}
	return r.set.Key(kid)
}

// fetch downloads the key set.
func (r *remoteKeys) fetch(ctx context.Context) (jose.JSONWebKeySet, error) {
	url := r.c.JWKSURL
	if url == "" {
		d, err := Discover(ctx, r.c.Client, r.c.Issuer)
		if err != nil {
			return jose.JSONWebKeySet{}, err
		}
		if url = d.Keys; url == "" {
			return jose.JSONWebKeySet{}, fmt.Errorf("the discovery document of %q has no jwks_uri", r.c.Issuer)
		}
	}
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := getJSON(ctx, r.c.Client, url, &raw); err != nil {
		return jose.JSONWebKeySet{}, err
	}
	var set jose.JSONWebKeySet
	for _, data := range raw.Keys {
		var key jose.JSONWebKey
		// Unknown kinds of keys are for other clients; private and shared keys do not
		// belong in a published set.
		if key.UnmarshalJSON(data) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			set.Keys = append(set.Keys, key)
		}
	}
	return set, nil
}

func getJSON(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

var _ oidc.KeySet = (*remoteKeys)(nil)
