package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"millrace/shared/account/tenant"
	"millrace/shared/run/runstate"
)

// The times of a request that waits for its run.
const (
	waitMost  = 14*time.Minute + 30*time.Second // within the function's time-out
	heartbeat = 10 * time.Second                // between two signs of life
	lookFirst = 20 * time.Millisecond           // looks at the run, should the signal of its end be another process's
	lookMost  = time.Second
)

// stream writes an answer in parts.
type stream struct{ w io.Writer }

func begin(hc huma.Context) stream {
	hc.SetHeader("Content-Type", "application/json")
	return stream{hc.BodyWriter()}
}

// text sends a part; false if the client is gone.
func (s stream) text(part []byte) bool {
	if _, err := s.w.Write(part); err != nil {
		return false
	}
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
	return true
}

// json sends a value and ends the answer.
func (s stream) json(v any) {
	var buf bytes.Buffer
	encode(&buf, v)
	_, _ = s.w.Write(buf.Bytes())
}

// encode appends v, one of this package's own types, as a line of JSON.
func encode(buf *bytes.Buffer, v any) {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Errorf("answer cannot be written as JSON: %w", err))
	}
}

// abandon ends an answer that cannot be completed: the frame reports the cause
// and, as bytes were sent, cuts the connection off, so that the client does not
// take the answer for whole.
func abandon(ctx context.Context, err error) {
	if ctx.Err() == nil {
		panic(err)
	}
}

// follow answers with the detail of a run once it has ended. White space before
// the JSON keeps the connection alive.
func (s *service) follow(ctx context.Context, id string) *huma.StreamResponse {
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		out := begin(hc)
		if !s.await(ctx, id, out) {
			return
		}
		detail, err := s.get(ctx, id)
		if err != nil {
			abandon(ctx, fmt.Errorf("answer with run %s: %w", id, err))
			return
		}
		out.json(detail)
	}}
}

// await returns when the run has ended or has taken too long; false if the
// client has gone meanwhile.
func (s *service) await(ctx context.Context, id string, out stream) bool {
	org := tenant.From(ctx).OrgID
	woken, stop := s.hub.Wait(runstate.RunSignal(id))
	defer stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	over := time.NewTimer(waitMost)
	defer over.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	for pause := lookFirst; ; {
		select {
		case <-ctx.Done():
			return false
		case <-over.C:
			return true
		case <-beat.C:
			if !out.text([]byte(" ")) {
				return false
			}
			continue
		case <-woken:
		case <-look.C:
		}
		run, err := runstate.GetRun(ctx, s.table, org, id)
		switch {
		case err != nil && ctx.Err() == nil:
			s.log.Warn("look at a run that is waited for", "run", id, "error", err)
		case err == nil && run.Status.RunEnded():
			return true
		}
		look.Reset(pause)
		pause = min(pause*3/2, lookMost)
	}
}
