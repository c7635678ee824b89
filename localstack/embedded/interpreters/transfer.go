//go:build unix

package interpreters

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"millrace/shared/platform/clock"
	"millrace/shared/run/sandbox"
)

// transfer sends the large inputs and receives the large output of one request,
// because the child may have no network and gets no links.
type transfer struct {
	pool      *Pool
	to        io.Writer
	ended     <-chan struct{} // closed when the child has ended
	nonce     nonce
	inputs    map[string]sandbox.Input
	outputURL sandbox.Link // of large outputs; nil: they come inline
	files     sandbox.Files
	inline    int64 // size in bytes of the largest inline output
	stored    int64 // bytes of the stored output
}

// bounded returns a context that ends when the child has ended, or after a
// time-out.
func (t *transfer) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	go func() {
		select {
		case <-t.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// fetch answers a fetch frame with the input, or with the reason why there is
// none. If it returns an error the child cannot continue.
func (t *transfer) fetch(ctx context.Context, name []byte) error {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	in, ok := t.inputs[string(name)]
	if !ok || in.URL == nil {
		return t.sendText(frameNoInput, "there is none of that name")
	}
	return t.get(ctx, in.URL, sandbox.MaxOutputBytes)
}

// get responds with the content of a link.
func (t *transfer) get(ctx context.Context, link sandbox.Link, most int64) error {
	resp, err := t.pool.request(ctx, http.MethodGet, link, nil, 0, "")
	if err != nil {
		return t.sendText(frameNoInput, err.Error())
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ContentLength < 0 || resp.ContentLength > most {
		return fmt.Errorf("%w: an input of %d bytes", errRunner, resp.ContentLength)
	}
	return t.send(frameInput, resp.ContentLength, resp.Body)
}

func (t *transfer) sendText(kind byte, text string) error {
	return t.send(kind, int64(len(text)), strings.NewReader(text))
}

func (t *transfer) send(kind byte, size int64, body io.Reader) error {
	start := binary.BigEndian.AppendUint32(nil, uint32(size+int64(head-4)))
	start = append(append(start, kind), t.nonce[:]...)
	if _, err := t.to.Write(start); err != nil {
		return err
	}
	_, err := io.CopyN(t.to, body, size)
	return err
}

// takes reports whether an output of the given size is to be stored.
func (t *transfer) takes(size int64) bool {
	return t.outputURL != nil && size > t.inline && t.stored == 0
}

// store stores the output, which follows in the pipe, by its link.
func (t *transfer) store(ctx context.Context, from io.Reader, size int64) error {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	if err := t.put(ctx, t.outputURL, from, size, "application/json"); err != nil {
		return fmt.Errorf("%w: the output could not be stored: %w", errRunner, err)
	}
	t.stored = size
	return nil
}

// put stores what follows in the pipe. It is written to a file first: an upload
// may be retried, but a pipe is read once.
func (t *transfer) put(ctx context.Context, link sandbox.Link, from io.Reader, size int64, contentType string) error {
	spool, err := os.CreateTemp(t.pool.config.Dir, ".output-")
	if err != nil {
		return err
	}
	defer func() { _ = spool.Close() }()
	if err := os.Remove(spool.Name()); err != nil {
		return err
	}
	if _, err := io.CopyN(spool, from, size); err != nil {
		return err
	}
	resp, err := t.pool.request(ctx, http.MethodPut, link, spool, size, contentType)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// Delays of the repetitions of a request to the object store.
const (
	firstDelay   = 200 * time.Millisecond
	longestDelay = 5 * time.Second
)

// request makes a request to the object store. It is repeated until the pool's
// patience is used up if its failure may pass: the store is busy, or its disk is
// full. Errors name no link: it is a credential.
func (p *Pool) request(ctx context.Context, method string, sign sandbox.Link, body io.ReaderAt, size int64, contentType string) (*http.Response, error) {
	link, err := sign(ctx)
	if err != nil {
		return nil, err
	}
	delay, left := firstDelay, p.config.patience
	for {
		req, err := http.NewRequestWithContext(ctx, method, link, nil)
		if err != nil {
			return nil, errors.New("the link is malformed")
		}
		if body != nil {
			req.Body, req.ContentLength = io.NopCloser(io.NewSectionReader(body, 0, size)), size
			req.Header.Set("Content-Type", contentType)
		}
		resp, err := p.config.HTTPClient.Do(req)
		switch {
		case err == nil && resp.StatusCode == http.StatusOK:
			return resp, nil
		case err == nil:
			err = fmt.Errorf("status %d", resp.StatusCode)
			_ = resp.Body.Close()
			if !passes(resp.StatusCode) {
				return nil, err
			}
		default:
			if failure, ok := errors.AsType[*url.Error](err); ok { // its text contains the link
				err = failure.Err
			}
		}
		if delay > left || ctx.Err() != nil { //guard:sandbox/busy-store true
			return nil, err
		}
		_ = clock.Sleep(ctx, delay) // the next attempt returns the error of ctx
		left -= delay
		delay = min(2*delay, longestDelay)
	}
}

// passes reports whether a request that was answered with a status may succeed later.
func passes(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}
