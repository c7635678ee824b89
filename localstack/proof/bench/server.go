package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"millrace/localstack/proc"
)

// clients is the maximum number of concurrent requests.
const clients = 16

// server is a running server with its client.
type server struct {
	*proc.Server
	dir  string
	log  *output
	http *http.Client
}

// output collects what a server writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String is the text.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// serve starts a server on a new data directory, like an operator.
func (b *bench) serve(ctx context.Context, flags ...string) (*server, error) {
	dir, err := os.MkdirTemp(b.dir, "data-")
	if err != nil {
		return nil, err
	}
	// Children of a server that runs as root have another user.
	for _, path := range []string{b.dir, dir} {
		if err := os.Chmod(path, 0o711); err != nil {
			return nil, err
		}
	}
	return b.serveOn(ctx, filepath.Join(dir, "data"), flags...)
}

// serveOn starts a server on a data directory.
func (b *bench) serveOn(ctx context.Context, dir string, flags ...string) (*server, error) {
	s := &server{dir: dir, log: &output{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}}
	var err error
	if s.Server, err = proc.Serve(ctx, b.Binary, dir, s.log, append([]string{"--log-level", "error"}, flags...)...); err != nil {
		return nil, err
	}
	return s, nil
}

// end stops the server, at once if ctx has ended.
func (s *server) end(ctx context.Context) error {
	s.http.CloseIdleConnections()
	end := s.Stop
	if ctx.Err() != nil {
		end = func() error { s.Kill(); return nil }
	}
	if err := end(); err != nil {
		return fmt.Errorf("the server did not stop well: %w", err)
	}
	return nil
}

// with calls do with a new server.
func (b *bench) with(ctx context.Context, do func(*server) error, flags ...string) (err error) {
	s, err := b.serve(ctx, flags...)
	if err != nil {
		return err
	}
	defer func() {
		if ended := s.end(ctx); err == nil {
			err = ended
		}
		_ = os.RemoveAll(filepath.Dir(s.dir)) // the whole directory is removed at the end
	}()
	return do(s)
}

// call sends a request to the API with a JSON body and returns the body of a
// 200 response, and how long it took to read it.
func (s *server) call(ctx context.Context, method, path string, body []byte) ([]byte, time.Duration, error) {
	return s.callAs(ctx, s.Credentials.APIKey, method, path, body)
}

// callAs is call with a credential.
func (s *server) callAs(ctx context.Context, token, method, path string, body []byte) ([]byte, time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.Credentials.BaseURL+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	begin := time.Now()
	res, err := s.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	took := time.Since(begin)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s answered %d: %s", method, path, res.StatusCode, data)
	}
	return data, took, err
}

func (s *server) register(ctx context.Context, f flow) error {
	body, err := json.Marshal(f)
	if err != nil {
		return err
	}
	_, _, err = s.call(ctx, http.MethodPost, "/flows", body)
	return err
}

// execute returns the body of POST /runs that waits for the end.
func (f flow) execute() []byte {
	body := f.run()
	body["execute"] = true
	data, err := json.Marshal(body)
	if err != nil {
		panic(err) // texts
	}
	return data
}

// execute runs a flow to its end and returns the duration as seen by the
// client. The run must succeed.
func (s *server) execute(ctx context.Context, body []byte) (id string, took time.Duration, err error) {
	data, took, err := s.call(ctx, http.MethodPost, "/runs", body)
	if err != nil {
		return "", 0, err
	}
	var run struct {
		ID     string `json:"run_id"`
		Status string `json:"status"`
		Error  string `json:"error_message"`
	}
	if err := json.Unmarshal(data, &run); err != nil {
		return "", 0, err
	}
	if run.Status != succeeded {
		return "", 0, fmt.Errorf("run %s is %s: %s", run.ID, run.Status, run.Error)
	}
	return run.ID, took, nil
}

// sample times n runs after some to warm up, and returns the bytes written to
// disk per run, 0 if unknown.
func (s *server) sample(ctx context.Context, body []byte, warm, n int) (samples, int64, error) {
	for range warm {
		if _, _, err := s.execute(ctx, body); err != nil {
			return nil, 0, err
		}
	}
	before := s.written()
	var out samples
	for range n {
		_, took, err := s.execute(ctx, body)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, took)
	}
	return out, (s.written() - before) / int64(n), nil
}

// written returns the bytes that the server has caused to be written to disk; 0
// if unknown.
func (s *server) written() int64 {
	n, err := s.Written()
	if err != nil {
		return 0
	}
	return n
}
