package httpapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"sync"
	"time"
)

// heartbeat is the interval of white space in a response that is still being
// computed.
const heartbeat = 10 * time.Second

// flushEvery is the number of bytes of a list that are sent at a time.
const flushEvery = 32 << 10

// Stream is a JSON response that is sent in parts: a list of any length, or a
// result that takes time. T is the type of the whole. If it fails after its
// status was sent, the connection is closed abnormally, so that no client takes
// the response for complete.
type Stream[T any] struct {
	send     func(ctx context.Context, w http.ResponseWriter) error
	location string // redirect target; empty: send is called
}

// streamed is a Stream of any type.
type streamed interface {
	stream(ctx context.Context, w http.ResponseWriter)
	body() reflect.Type
	elsewhere() string
}

func (Stream[T]) body() reflect.Type { return reflect.TypeFor[T]() }

func (s Stream[T]) elsewhere() string { return s.location }

// RedirectTo returns a redirect (302) to the URL of a response that is too
// large to send. The operation lists the status in its Errors.
func RedirectTo[T any](url string) Stream[T] { return Stream[T]{location: url} }

// stream sends the response. It panics on a failure, which the framework
// reports.
func (s Stream[T]) stream(ctx context.Context, w http.ResponseWriter) {
	if err := s.send(ctx, w); err != nil && ctx.Err() == nil {
		panic(err)
	}
}

// Parts returns a response written by send: JSON, flushed wherever the client
// should see it at once. A write error means that the client has disconnected.
func Parts[T any](send func(ctx context.Context, w http.ResponseWriter) error) Stream[T] {
	return Stream[T]{send: send}
}

// Whole returns a response with an existing value.
func Whole[T any](v T) Stream[T] {
	return Parts[T](func(_ context.Context, w http.ResponseWriter) error { return writeAnswer(w, v) })
}

// Wait returns a response with the result of do. White space before the JSON
// keeps the connection alive meanwhile.
func Wait[T any](do func(ctx context.Context) (T, error)) Stream[T] {
	return Later[T](func(ctx context.Context) (any, error) { return do(ctx) })
}

// Later is Wait for a result with more fields than T.
func Later[T any](do func(ctx context.Context) (any, error)) Stream[T] {
	return Parts[T](func(ctx context.Context, w http.ResponseWriter) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		beats := beat(w, cancel)
		defer beats.end() // in case do panics
		v, err := do(ctx)
		if gone := beats.end(); gone {
			return nil
		}
		if err != nil {
			return err
		}
		return writeAnswer(w, v)
	})
}

// heartbeats show that a pending response is alive.
type heartbeats struct {
	w      http.ResponseWriter
	cancel context.CancelFunc

	mu    sync.Mutex // held while w is written to
	timer *time.Timer
	over  bool
	gone  bool // the client has disconnected
}

// beat starts heartbeats. Until they end only they may write to w. cancel is
// called when the client has disconnected.
func beat(w http.ResponseWriter, cancel context.CancelFunc) *heartbeats {
	h := &heartbeats{w: w, cancel: cancel}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer = time.AfterFunc(heartbeat, h.send)
	return h
}

func (h *heartbeats) send() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return
	}
	if err := sendPart(h.w, []byte(" ")); err != nil {
		h.gone = true
		h.cancel()
		return
	}
	h.timer.Reset(heartbeat)
}

// end ends the heartbeats and reports whether the client has disconnected. It
// may be repeated.
func (h *heartbeats) end() (gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	h.timer.Stop()
	return h.gone
}

// List returns the response {"items": […]} for any number of items, in constant
// memory. It reads the first item before the response begins, and returns its
// error, so that the error determines the status.
func List[T any](seq iter.Seq2[T, error]) (Stream[Items[T]], error) {
	return ListTo[Items[T]](seq, func() (string, string) { return "", "" })
}

// ListTo is List for a response type L with one more field, whose value is known only
// after the last item: last returns its name and value. An empty name omits the field.
func ListTo[L, T any](seq iter.Seq2[T, error], last func() (name, value string)) (Stream[L], error) {
	next, stop := iter.Pull2(seq)
	first, err, more := next()
	if err != nil {
		stop()
		return Stream[L]{}, err
	}
	return Parts[L](func(_ context.Context, w http.ResponseWriter) error {
		defer stop()
		buf := []byte(`{"items":[`)
		for v, err := first, error(nil); more; v, err, more = next() {
			if err != nil {
				_ = sendPart(w, trimComma(buf)) // what is complete
				return err
			}
			if buf, err = appendAnswer(buf, v); err != nil {
				return fmt.Errorf("answer cannot be written as JSON: %w", err)
			}
			buf = append(buf, ',')
			if len(buf) >= flushEvery {
				if err := sendPart(w, buf[:len(buf)-1]); err != nil {
					return nil
				}
				buf = append(buf[:0], ',')
			}
		}
		buf = append(trimComma(buf), ']')
		if name, value := last(); name != "" {
			buf = fmt.Appendf(buf, ",%q:%q", name, value)
		}
		_ = sendPart(w, append(buf, "}\n"...)) // the client may have disconnected
		return nil
	}), nil
}

// trimComma removes the comma after the last item.
func trimComma(buf []byte) []byte {
	if n := len(buf); n > 0 && buf[n-1] == ',' {
		return buf[:n-1]
	}
	return buf
}

// sendPart writes a part and flushes it.
func sendPart(w http.ResponseWriter, part []byte) error {
	if _, err := w.Write(part); err != nil {
		return err
	}
	err := http.NewResponseController(w).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
