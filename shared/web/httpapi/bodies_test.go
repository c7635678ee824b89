package httpapi_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/web/httpapi"
)

// upload is a body whose client sends what the test writes.
type upload struct {
	*io.PipeWriter
	data    []byte
	release func()
	gone    func() // ends the context of the request
	done    chan error
}

// begin starts a body of an announced length.
func begin(b *httpapi.Bodies, length int64) *upload {
	r, w := io.Pipe()
	u := &upload{PipeWriter: w, done: make(chan error, 1)}
	ctx, gone := context.WithCancel(context.Background())
	u.gone = gone
	req := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
	req.Body, req.ContentLength = r, length
	go func() {
		var err error
		u.data, u.release, err = b.ReadBody(httptest.NewRecorder(), req, 4<<20)
		_ = r.Close()
		u.done <- err
	}()
	return u
}

func (u *upload) send(n int) { _, _ = u.Write(make([]byte, n)) }

func requireBusy(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*errs.Error](err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, errs.Unavailable, e.Code)
	assert.Equal(t, 2*time.Second, e.RetryAfter)
}

// TestBodyHoldsMemoryOfReceivedBytes: the announced length does not count.
func TestBodyHoldsMemoryOfReceivedBytes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, length := range []int64{4 << 20, -1} {
			b := httpapi.NewBodies(64 << 20)
			u := begin(b, length)
			u.send(10)
			synctest.Wait()
			assert.EqualValues(t, 4<<10, b.Used())
			u.send(100 << 10)
			synctest.Wait()
			assert.LessOrEqual(t, b.Used(), int64(2*(100<<10+10)))
			u.send(4<<20 - 100<<10 - 10)
			_ = u.Close()
			require.NoError(t, <-u.done)
			assert.Len(t, u.data, 4<<20)
			assert.LessOrEqual(t, b.Used(), int64(4<<20+1))
			u.release()
			u.release()
			assert.Zero(t, b.Used())
		}
	})
}

// TestSlowBodiesAreDropped: they are dropped for one that needs memory, the
// slowest first. Recent bodies are not dropped, and a body that waits in vain
// gets an error.
func TestSlowBodiesAreDropped(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBodies(20 << 10)
		slowest, slow := begin(b, 1<<20), begin(b, 1<<20)
		slowest.send(1 << 10)
		slow.send(5 << 10) // 8 KB are held
		time.Sleep(6 * time.Second)
		quick := begin(b, 7<<10)
		sent := make(chan struct{})
		go func() { quick.send(7 << 10); close(sent) }() // 7 KB and one byte, besides 4 KB until these are copied
		synctest.Wait()
		slowest.send(1) // on a connection, its read has ended
		requireBusy(t, <-slowest.done)
		<-sent
		_ = quick.Close()
		require.NoError(t, <-quick.done)

		other := begin(b, 6<<10)
		sent = make(chan struct{})
		go func() { other.send(6 << 10); close(sent) }()
		synctest.Wait()
		slow.send(1)
		requireBusy(t, <-slow.done)
		<-sent
		_ = other.Close()
		require.NoError(t, <-other.done, "it has just begun")

		asked := time.Now()
		last := begin(b, 16<<10)
		go last.send(16 << 10)
		requireBusy(t, <-last.done)
		assert.Equal(t, 5*time.Second, time.Since(asked), "what is worked on gives way to nobody")
		quick.release()
		other.release()
		assert.Zero(t, b.Used())
	})
}

// TestWaitingBodyGetsReleasedMemory checks that a waiting body continues.
func TestWaitingBodyGetsReleasedMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := httpapi.NewBodies(5 << 10)
		first := begin(b, 3<<10)
		first.send(3 << 10)
		_ = first.Close()
		require.NoError(t, <-first.done)
		second := begin(b, 3<<10)
		time.Sleep(4 * time.Second)
		first.release()
		second.send(3 << 10)
		_ = second.Close()
		require.NoError(t, <-second.done)
		second.release()

		third := begin(b, 6<<10)
		third.send(1)
		third.gone() // net/http reports an expired deadline in this way
		_ = third.CloseWithError(os.ErrDeadlineExceeded)
		e, ok := errors.AsType[*errs.Error](<-third.done)
		require.True(t, ok)
		assert.Equal(t, errs.Invalid, e.Code)
		assert.Equal(t, "The request body arrived too slowly", e.Message)
		assert.Zero(t, b.Used())
	})
}

// TestBodyMemoryIsHeldUntilHandlerReturns, even if the response continues.
func TestBodyMemoryIsHeldUntilHandlerReturns(t *testing.T) {
	t.Parallel()
	b := httpapi.NewBodies(1 << 20)
	a := httpapi.New(httpapi.Config{Log: slog.New(slog.DiscardHandler), Bodies: b})
	var handled, streamed int64
	httpapi.Register(a, httpapi.Operation{ID: "op", Method: "POST", Path: "/op", Access: tenant.Public},
		func(context.Context, *struct{ Body []string }) (httpapi.Stream[int64], error) {
			handled = b.Used()
			return httpapi.Wait(func(context.Context) (int64, error) {
				streamed = b.Used()
				return streamed, nil
			}), nil
		})
	w := httptest.NewRecorder()
	body := `["` + strings.Repeat("x", 1000) + `"]`
	a.Handler().ServeHTTP(w, request(t, "POST", "/op", "", body))
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	assert.EqualValues(t, len(body)+1, handled)
	assert.Zero(t, streamed)
	w = httptest.NewRecorder()
	a.Handler().ServeHTTP(w, request(t, "POST", "/op", "", `{}`))
	assert.Equal(t, http.StatusUnprocessableEntity, w.Code)
	assert.Zero(t, b.Used(), "a refused body is let go")
}
