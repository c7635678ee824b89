package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/aws/aws-lambda-go/events"
)

// chunk is how many bytes of an answer wait for more before they are sent.
const chunk = 32 << 10

// Stream answers an event as a stream, which begins with the handler's first
// byte. Closing the body ends a handler that still runs, and waits for it.
// Errors: ErrNotProxyEvent.
func (f *Function) Stream(ctx context.Context, event events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	s := &stream{header: http.Header{}, out: bufio.NewWriterSize(w, chunk), begun: make(chan struct{})}
	body := &body{PipeReader: r, cancel: cancel, done: make(chan struct{})}
	var failed error // before the answer began
	go func() {
		defer close(body.done)
		err := f.serve(ctx, s, event)
		if errors.Is(err, ErrNotProxyEvent) {
			failed = err
		}
		s.WriteHeader(http.StatusOK)
		if err == nil {
			err = s.out.Flush()
		}
		f.after()
		_ = w.CloseWithError(err) // never fails
	}()
	<-s.begun
	if failed != nil {
		_ = body.Close() // never fails
		return nil, failed
	}
	return &events.APIGatewayProxyStreamingResponse{StatusCode: s.status, MultiValueHeaders: s.sent, Body: body}, nil
}

// body is the reading end of an answer.
type body struct {
	*io.PipeReader
	cancel context.CancelFunc
	done   chan struct{}
}

// Close ends the handler.
func (b *body) Close() error {
	_ = b.PipeReader.Close() // never fails
	b.cancel()
	<-b.done
	return nil
}

// stream is the writing end of an answer.
type stream struct {
	header http.Header
	out    *bufio.Writer

	once   sync.Once
	begun  chan struct{} // closed once the rest is set
	status int
	sent   http.Header // what header was then
}

// Header holds what is sent with the status.
func (s *stream) Header() http.Header { return s.header }

// WriteHeader begins the answer.
func (s *stream) WriteHeader(status int) {
	s.once.Do(func() {
		s.status, s.sent = status, s.header.Clone()
		close(s.begun)
	})
}

// Write adds to the body.
func (s *stream) Write(data []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return s.out.Write(data)
}

// FlushError sends what was written.
func (s *stream) FlushError() error {
	s.WriteHeader(http.StatusOK)
	return s.out.Flush()
}

// Flush is FlushError for those who do not ask.
func (s *stream) Flush() { _ = s.FlushError() }
