//go:build unix

package interpreters_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/shared/run/sandbox"
)

func TestPlacesAreGivenInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		pool, err := interpreters.New(interpreters.Config{Dir: dir, Slots: 1})
		require.NoError(t, err)
		defer func() { assert.NoError(t, pool.Close()) }()
		release, err := pool.Reserve(t.Context())
		require.NoError(t, err)

		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				release, err := pool.Reserve(t.Context())
				if assert.NoError(t, err) {
					order <- i
					release()
				}
			}()
			synctest.Wait() // it stands in line
		}
		why := errors.New("fenced")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, err = pool.Reserve(ctx)
		require.ErrorIs(t, err, why)

		require.Empty(t, order)
		release()
		for i := range 3 {
			assert.Equal(t, i, <-order)
		}
		synctest.Wait()
		release() // changes nothing
		release, err = pool.Reserve(t.Context())
		require.NoError(t, err)
		_, err = pool.Reserve(ctx)
		require.ErrorIs(t, err, why, "there is one place only")
		release()
	})
}

func TestAReservedTaskTakesNoPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { c.Slots = 1 })
	release, err := r.Reserve(t.Context())
	require.NoError(t, err)
	req := r.request(t, "def f(): return 1\n", "f")
	req.Reserved = true
	result, _ := r.run(t, req)
	assert.Equal(t, "1", output(t, result))
	release()
	req.Reserved = false
	result, _ = r.run(t, req)
	assert.Equal(t, "1", output(t, result))

	require.NoError(t, r.Close())
	_, err = r.Reserve(t.Context())
	require.ErrorIs(t, err, interpreters.ErrClosed)
}

// TestAnArtifactThatCannotBeFetched keeps a task from beginning: a store that
// does not answer may do so later, an artifact that is gone stays so.
func TestAnArtifactThatCannotBeFetched(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer down.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	r := newRig(t)
	for name, test := range map[string]struct {
		url         string
		unavailable bool
	}{
		"gone":        {r.url + "/nothing", false},
		"down":        {down.URL, true},
		"unreachable": {closed.URL, true},
	} {
		req := r.request(t, "def f(): return 1\n", "f")
		req.Artifact = sandbox.Artifact{Hash: name, URL: at(test.url + "?sig=verysecret")}
		_, err := r.Run(t.Context(), req, func(sandbox.LogEvent) {})
		require.Error(t, err, name)
		assert.Equal(t, test.unavailable, errors.Is(err, sandbox.ErrUnavailable), "%s: %v", name, err)
		assert.NotContains(t, err.Error(), "verysecret", name)
	}
}
