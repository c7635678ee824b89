package httpapi

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"reflect"
	"runtime/debug"
	"time"
)

// heartbeat is how often an answer that is waited for shows that it is alive.
const heartbeat = 10 * time.Second

// flushEvery is how many bytes of a list are sent at a time.
const flushEvery = 32 << 10

// Stream is an answer of JSON that is sent in parts: a list of any length, or
// what has to be waited for. T is what the whole of it reads as. When it fails
// after its status was sent, the connection is cut off, so that no client takes
// the answer for whole.
type Stream[T any] struct {
	send func(ctx context.Context, w http.ResponseWriter) error
}

// streamed is a Stream of any type.
type streamed interface {
	stream(ctx context.Context, w http.ResponseWriter)
	body() reflect.Type
}

func (Stream[T]) body() reflect.Type { return reflect.TypeFor[T]() }

// stream sends the answer. A failure is a panic, which the frame reports.
func (s Stream[T]) stream(ctx context.Context, w http.ResponseWriter) {
	if err := s.send(ctx, w); err != nil && ctx.Err() == nil {
		panic(err)
	}
}

// Parts answers with what send writes: JSON, flushed where the client is to see it
// at once. An error of the writer says that the client is gone.
func Parts[T any](send func(ctx context.Context, w http.ResponseWriter) error) Stream[T] {
	return Stream[T]{send}
}

// Whole answers with a value that is there.
func Whole[T any](v T) Stream[T] {
	return Parts[T](func(_ context.Context, w http.ResponseWriter) error { return writeAnswer(w, v) })
}

// Wait answers with what do returns. White space before the JSON keeps the
// connection alive meanwhile.
func Wait[T any](do func(ctx context.Context) (T, error)) Stream[T] {
	return Later[T](func(ctx context.Context) (any, error) { return do(ctx) })
}

// Later is Wait for an answer that has more fields than T says.
func Later[T any](do func(ctx context.Context) (any, error)) Stream[T] {
	return Parts[T](func(ctx context.Context, w http.ResponseWriter) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		type result struct {
			v   any
			err error
		}
		done := make(chan result, 1)
		go func() {
			var out result
			defer func() {
				if cause := recover(); cause != nil {
					out.err = &panicError{value: cause, stack: debug.Stack()}
				}
				done <- out
			}()
			out.v, out.err = do(ctx)
		}()
		beat := time.NewTicker(heartbeat)
		defer beat.Stop()
		for {
			select {
			case out := <-done:
				if out.err != nil {
					return out.err
				}
				return writeAnswer(w, out.v)
			case <-beat.C:
				if err := sendPart(w, []byte(" ")); err != nil {
					cancel()
					<-done
					return nil
				}
			}
		}
	})
}

// List answers with {"items": […]} of any length, which takes little memory. The
// first element is read before the answer begins: the error that it fails with
// is returned, for its status.
func List[T any](seq iter.Seq2[T, error]) (Stream[Items[T]], error) {
	next, stop := iter.Pull2(seq)
	first, err, more := next()
	if err != nil {
		stop()
		return Stream[Items[T]]{}, err
	}
	return Parts[Items[T]](func(_ context.Context, w http.ResponseWriter) error {
		defer stop()
		buf := []byte(`{"items":[`)
		for v, err := first, error(nil); more; v, err, more = next() {
			if err != nil {
				_ = sendPart(w, trimComma(buf)) // what there is
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
		_ = sendPart(w, append(trimComma(buf), "]}\n"...)) // the client may be gone
		return nil
	}), nil
}

// trimComma takes the comma after the last element away.
func trimComma(buf []byte) []byte {
	if n := len(buf); n > 0 && buf[n-1] == ',' {
		return buf[:n-1]
	}
	return buf
}

// sendPart writes a part and sees to it that it is sent.
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
