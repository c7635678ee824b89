// Package drivers runs the whole service, including workers, on any drivers of
// the ports, with the same end-to-end tests, so that what works on the embedded
// drivers works on the cloud's.
package drivers

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/proof/localtest"
	"millrace/shared/platform/ids"
	"millrace/shared/web/fn"
)

// Drivers opens the ports for one service. Ports left nil are embedded.
type Drivers func(t *testing.T) localtest.Options

// Service is the running service.
type Service struct {
	*localtest.Env
	Client   *client.Client // with the key of workspace A
	Stranger *client.Client // with the key of workspace B

	mark string // makes flow names unique to a run of the suite
}

// At returns a service that runs elsewhere on this machine, for [Suite]. known
// has the key of a workspace; the stranger's is created through the local
// sign-in, which requires the local secret. Env is nil.
func At(t *testing.T, known *client.Client, secret string) *Service {
	t.Helper()
	var signedIn struct {
		IDToken string `json:"id_token"`
	}
	visitor := &client.Client{BaseURL: known.BaseURL, Token: secret}
	email := strings.ToLower(ids.Slug()) + "@stranger.test"
	require.NoError(t, visitor.Do(t.Context(), http.MethodPost, signin.SignInPath, object{"email": email}, &signedIn))
	visitor.Token = signedIn.IDToken
	require.NoError(t, visitor.Do(t.Context(), http.MethodPost, "/orgs", object{"name": "Stranger"}, nil))
	var made struct{ Key string }
	require.NoError(t, visitor.Do(t.Context(), http.MethodPost, "/api-keys", object{"name": "suite", "scopes": []string{}}, &made))
	return &Service{Client: known, Stranger: &client.Client{BaseURL: known.BaseURL, Token: made.Key}}
}

// Open starts the service on the drivers: the API on its own listener, every
// queue function with its queues, and Python interpreters.
func Open(t *testing.T, drivers Drivers) *Service {
	t.Helper()
	o := drivers(t)
	o.Config = fn.Config{Version: "test", AllowLoopback: true, ProcessID: ids.Token(6)}
	// As for a deployed function: other processes may work on the same runs, and
	// nothing waits in memory between messages.
	o.Config.Exclusive, o.Config.LongLived = false, false
	pool, err := interpreters.New(interpreters.Config{Dir: filepath.Join(t.TempDir(), "python"), Slots: 8})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	o.Sandbox = pool
	env := localtest.Open(t, o, catalog.All()...)
	api := httptest.NewServer(env.API.Handler())
	t.Cleanup(api.Close)

	rt, err := runtime.New(runtime.Config{Specs: catalog.All(), Deps: env.Deps, Workers: 16})
	require.NoError(t, err)
	rt.Start(catalog.All(), false)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		rt.Stop(ctx)
	})
	web := &http.Client{Timeout: 2 * time.Minute}
	return &Service{
		Env:      env,
		Client:   &client.Client{BaseURL: api.URL, Token: env.A.Key, HTTP: web},
		Stranger: &client.Client{BaseURL: api.URL, Token: env.B.Key, HTTP: web},
	}
}
