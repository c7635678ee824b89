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

// chunk is the number of bytes buffered before they are sent.
const chunk = 32 << 10

// Stream returns a streamed response to an event. It returns when the handler
// writes its first byte. Closing the body cancels a running handler and waits
// for it. Errors: ErrNotProxyEvent.
func (f *Function) Stream(ctx context.Context, event events.APIGatewayProxyRequest) (*events.APIGatewayProxyStreamingResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	s := &stream{header: http.Header{}, out: bufio.NewWriterSize(w, chunk), begun: make(chan struct{})}
	body := &body{PipeReader: r, cancel: cancel, done: make(chan struct{})}
	var failed error // before the response began
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

// body is the reading end of a response.
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

// stream is the writing end of a response.
type stream struct {
	header http.Header
	out    *bufio.Writer

	once   sync.Once
	begun  chan struct{} // closed once the rest is set
	status int
	sent   http.Header // the headers at that time
}

// Header returns the headers to send with the status.
func (s *stream) Header() http.Header { return s.header }

// WriteHeader begins the response.
func (s *stream) WriteHeader(status int) {
	s.once.Do(func() {
		s.status, s.sent = status, s.header.Clone()
		s.sent.Del("Content-Length") // the gateway frames what is streamed
		close(s.begun)
	})
}

// Write appends to the body.
func (s *stream) Write(data []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return s.out.Write(data)
}

// FlushError sends what was written.
func (s *stream) FlushError() error {
	s.WriteHeader(http.StatusOK)
	return s.out.Flush()
}

// Flush implements http.Flusher.
func (s *stream) Flush() { _ = s.FlushError() }
