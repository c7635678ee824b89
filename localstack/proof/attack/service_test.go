package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/proc"
)

// service is a server under attack, with the workspace that is not its target.
type service struct {
	*proc.Server
	dir       string
	log       *logged
	neighbour *neighbour
	alone     *figures // of the neighbour before the first attack
}

// logged is the output of servers. It is safe for concurrent use.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

// take returns the output since the last call.
func (l *logged) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.buf.Reset()
	return l.buf.String()
}

// start runs a server with default settings until the test ends. Tasks may call
// this machine, where the attacker runs.
func start(t *testing.T) *service {
	t.Helper()
	dir, err := os.MkdirTemp("", "millrace-attack-") // its children have another user if the test is root
	require.NoError(t, err)
	s := &service{dir: filepath.Join(dir, "data"), log: &logged{}}
	t.Cleanup(func() {
		if s.Server != nil {
			s.Kill()
		}
		_ = os.RemoveAll(dir)
	})
	s.serve(t)
	s.neighbour = newNeighbour(t, s)
	return s
}

// serve starts the server, or restarts it.
func (s *service) serve(t *testing.T) {
	t.Helper()
	server, err := proc.Serve(t.Context(), binary, s.dir, s.log, "--allow-loopback")
	require.NoError(t, err)
	s.Server = server
}

// result is the result of an attack.
type result struct {
	*tally
	took         time.Duration
	memory       int64 // peak of the server, in bytes
	alone, under figures
}

// suffer runs an attack against the server.
func (s *service) suffer(t *testing.T, a *attack) *result {
	t.Helper()
	in := s.orders(t, a)
	r := &result{}
	before := in.estate(t)
	if s.alone == nil {
		alone := s.neighbour.measure(t.Context(), func(ctx context.Context) { pause(ctx, size(partSpan, 2*time.Second)) })
		s.alone = &alone
	}
	r.alone = *s.alone
	began := time.Now()
	r.under = s.neighbour.measure(t.Context(), func(context.Context) {
		r.tally = in.send(t)
		r.took = time.Since(began)
	})
	r.Problems = append(r.Problems, r.under.failures...)
	if !assert.NoError(t, s.well(t.Context()), "after the attack") {
		return r
	}
	after := in.estate(t)
	assert.Equal(t, before, after, "what others have is as it was")
	r.memory = s.most(t)
	if a.restart && *full {
		s.Kill()
		s.serve(t)
		s.neighbour.api = s.neighbour.client(s.Credentials.BaseURL)
		again := s.neighbour.measure(t.Context(), func(ctx context.Context) { pause(ctx, 5*time.Second) })
		assert.Empty(t, again.failures)
		r.memory = max(r.memory, s.most(t))
		t.Logf("%s, killed and started again in %s: requests %s, runs %s, Python runs %s", a.name, s.Startup.Round(time.Millisecond),
			again.request, again.run, again.python)
	}
	return r
}

// size returns part, or whole with -full.
func size[T any](part, whole T) T {
	if *full {
		return whole
	}
	return part
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// well waits until the server is healthy.
func (s *service) well(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	_, err := s.neighbour.api.WaitHealthy(ctx)
	return err
}

// most returns the peak memory of the server; 0 if it is unknown.
func (s *service) most(t *testing.T) int64 {
	t.Helper()
	most, err := s.Peak()
	if errors.Is(err, os.ErrNotExist) {
		return 0
	}
	require.NoError(t, err)
	return most
}

// faults returns the log lines that report a fault of the server.
func (s *service) faults(a *attack) (found []string) {
	for line := range strings.Lines(s.log.take()) {
		// Messages and invocations that make no sense are logged for the operator.
		failed := strings.Contains(line, "level=ERROR") && a.name != "invoke"
		if strings.Contains(line, `msg="a library panicked on a user's input"`) {
			continue // the user gets the error
		}
		if failed || strings.Contains(line, "panic") || strings.Contains(line, "fatal error") {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found[:min(len(found), 10)]
}

// workspace signs in a user, creates a workspace, and returns a client with
// full access to it.
func (s *service) workspace(t *testing.T, email string) *client.Client {
	t.Helper()
	web := &client.Client{BaseURL: s.Credentials.BaseURL}
	var signed struct {
		IDToken string `json:"id_token"`
	}
	require.NoError(t, s.Local().Do(t.Context(), http.MethodPost, "/_local/sign-in", object{"email": email}, &signed))
	web.Token = signed.IDToken
	require.NoError(t, web.Do(t.Context(), http.MethodPost, "/orgs", object{"name": email}, nil))
	return &client.Client{BaseURL: web.BaseURL, Token: newKey(t, web, "full access")}
}

// newKey creates an API key, with full access if there are no scopes.
func newKey(t *testing.T, api *client.Client, name string, scopes ...string) string {
	t.Helper()
	var made struct {
		Key string `json:"key"`
	}
	in := object{"name": name, "scopes": append([]string{}, scopes...)}
	require.NoError(t, api.Do(t.Context(), http.MethodPost, "/api-keys", in, &made))
	return made.Key
}

type object = map[string]any

func marshal(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	return raw
}
