//go:build unix

package interpreters_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/interpreters"
	"millrace/shared/run/sandbox"
)

func TestSlotsAreGrantedInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		pool, err := interpreters.New(interpreters.Config{Dir: dir, Slots: 1})
		require.NoError(t, err)
		defer func() { assert.NoError(t, pool.Close()) }()
		release, err := pool.Reserve(t.Context(), "org")
		require.NoError(t, err)

		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				release, err := pool.Reserve(t.Context(), "org")
				if assert.NoError(t, err) {
					order <- i
					release()
				}
			}()
			synctest.Wait() // it is waiting
		}
		why := errors.New("fenced")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, err = pool.Reserve(ctx, "org")
		require.ErrorIs(t, err, why)

		require.Empty(t, order)
		release()
		for i := range 3 {
			assert.Equal(t, i, <-order)
		}
		synctest.Wait()
		release() // changes nothing
		release, err = pool.Reserve(t.Context(), "org")
		require.NoError(t, err)
		_, err = pool.Reserve(ctx, "org")
		require.ErrorIs(t, err, why, "there is only one slot")
		release()
	})
}

// TestWorkspaceLeavesSlots lets one workspace request more slots than there
// are, and checks that another one's task still gets a slot at once.
func TestWorkspaceLeavesSlots(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		pool, err := interpreters.New(interpreters.Config{Dir: dir})
		require.NoError(t, err)
		defer func() { assert.NoError(t, pool.Close()) }()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan func(), 40)
		for range 40 {
			go func() {
				if release, err := pool.Reserve(ctx, "a"); err == nil {
					got <- release
				}
			}()
		}
		synctest.Wait()
		require.Len(t, got, 16)
		assert.Equal(t, "It waits for a Python interpreter: 16 of the 18 that run tasks at once are this workspace's, the rest is for others.", pool.Waiting("a"))
		assert.Empty(t, pool.Waiting("b"))
		for range 3 { // one after the other
			release, err := pool.Reserve(ctx, "b")
			require.NoError(t, err)
			release()
		}
		cancel()
		synctest.Wait()
		close(got)
		for release := range got {
			release()
		}
	})
}

// TestLargestWorkspaceLosesInterpreter checks that an idle interpreter of the
// workspace with the most is ended, even if another's has been idle for longer.
func TestLargestWorkspaceLosesInterpreter(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { c.Slots = 3 })
	name := func(workspace string, code int) string {
		req := r.request(t, fmt.Sprintf("import os\nname = os.urandom(8).hex()\ndef f(): return [name, %d][0]\n", code), "f")
		req.Workspace = workspace
		result, _ := r.run(t, req)
		return output(t, result)
	}
	other, first, second := name("other", 1), name("acme", 1), name("acme", 2)
	name("acme", 3)
	assert.Equal(t, other, name("other", 1))
	assert.Equal(t, second, name("acme", 2))
	assert.NotEqual(t, first, name("acme", 1))
}

func TestReservedTaskTakesNoFurtherSlot(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *interpreters.Config) { c.Slots = 1 })
	release, err := r.Reserve(t.Context(), "org")
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
	_, err = r.Reserve(t.Context(), "org")
	require.ErrorIs(t, err, interpreters.ErrClosed)
}

// TestUnavailableArtifactDelaysOrFailsTask: a store that does not respond may
// do so later, but a missing artifact stays missing.
func TestUnavailableArtifactDelaysOrFailsTask(t *testing.T) {
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
