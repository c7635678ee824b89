package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"millrace/functions/sandboxlogs"
	"millrace/localstack/proof/fixture"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/telemetry"
	"millrace/shared/run/sandbox/invoke"
)

// attemptKey signs the tokens of attempts.
var attemptKey = bytes.Repeat([]byte{7}, 32)

// sandboxes is Lambda as the service sees it when it starts runners: it accepts
// every event.
type sandboxes struct {
	invoked int      // events accepted
	tokens  []string // of events that no runner has taken
}

// RoundTrip implements http.RoundTripper.
func (s *sandboxes) RoundTrip(r *http.Request) (*http.Response, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var event struct{ Token string }
	if err := json.Unmarshal(data, &event); err != nil {
		return nil, err
	}
	s.invoked++
	s.tokens = append(s.tokens, event.Token)
	return &http.Response{StatusCode: http.StatusAccepted, Request: r, Body: http.NoBody, Header: http.Header{}}, nil
}

// driver returns the sandbox of a deployment on AWS.
func (s *sandboxes) driver() (*invoke.Sandbox, error) {
	return invoke.New(invoke.Config{Prefix: "sandbox-", Keys: keyring.Static(attemptKey), AWS: func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("k", "s", ""), HTTPClient: &http.Client{Transport: s},
		}, nil
	}})
}

// logged counts the bytes of the log lines of functions.
type logged struct{ bytes int }

// Write implements io.Writer.
func (l *logged) Write(data []byte) (int, error) {
	l.bytes += len(data)
	return len(data), nil
}

// silent returns a flow like another one, of silent Python tasks.
func silent(f flow) flow {
	f.Name = "python-" + f.Name
	tasks := make([]task, len(f.Spec.Tasks))
	for i, t := range f.Spec.Tasks {
		tasks[i] = task{Name: t.Name, Type: "python", Entrypoint: "flow:silent", DependsOn: t.DependsOn}
	}
	f.Spec.Tasks = tasks
	return f
}

// registerCode registers a flow with code.
func (s *service) registerCode(ctx context.Context, f flow) error {
	spec, err := json.Marshal(f.Spec)
	if err != nil {
		return err
	}
	return fixture.Register(fixture.Owner(ctx, s.org), s.table, s.objects, f.Name, string(spec))
}

// handed is an attempt that a runner has begun.
type handed struct {
	Token   string          `json:"token"`
	Request json.RawMessage `json:"request"`
}

// sandbox lets one sandbox run the tasks that it gets, from the token of its
// event on. Each writes no line and returns null.
func (s *service) sandbox(ctx context.Context, token string) error {
	s.begun++
	id := fmt.Sprintf("%024x", s.begun)
	var first handed
	if err := s.post(ctx, token, sandboxlogs.StartPath, map[string]any{"runner": id}, &first); err != nil {
		return err
	}
	for token != "" {
		var next struct{ Next handed }
		if err := s.post(ctx, token, sandboxlogs.CompletePath, map[string]any{
			"runner": id, "events": []any{}, "remaining_secs": sandboxSecs, "answer": map[string]any{"output": nil, "output_bytes": 4, "task_secs": 1},
		}, &next); err != nil {
			return err
		}
		token = next.Next.Token
	}
	return nil
}

// sandboxSecs is how long a sandbox lives after a task.
const sandboxSecs = 850

// post sends a request of a sandbox.
func (s *service) post(ctx context.Context, token, path string, body, out any) error {
	s.posts++
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx = s.invocation(ctx, sandboxlogs.Spec.Name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bench.test"+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.RemoteAddr = "127.0.0.1:1"
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	w := &answer{header: http.Header{}, status: http.StatusOK}
	s.api.ServeHTTP(w, req)
	if err := s.told(ctx); err != nil {
		return err
	}
	switch {
	case w.status/100 != 2:
		return fmt.Errorf("%s answered %d: %s", path, w.status, w.body.Bytes())
	case w.body.Len() == 0:
		return nil
	}
	return json.Unmarshal(w.body.Bytes(), out)
}

// invocation returns the context of an invocation of a function.
func (s *service) invocation(ctx context.Context, function string) context.Context {
	return telemetry.With(ctx, &telemetry.Subject{Function: function, Invocation: "01234567-89ab-cdef-0123-456789abcdef"})
}

// told writes the metrics of an invocation, as a function does at its end.
func (s *service) told(ctx context.Context) error {
	return s.metrics.Flush(still(), telemetry.From(ctx))
}

// workRemote handles messages and lets sandboxes run until nothing is left.
func (s *service) workRemote(ctx context.Context) error {
	for {
		if err := s.work(ctx); err != nil {
			return err
		}
		if len(s.lambda.tokens) == 0 {
			return nil
		}
		tokens := s.lambda.tokens
		s.lambda.tokens = nil
		for _, token := range tokens {
			if err := s.sandbox(ctx, token); err != nil {
				return err
			}
		}
	}
}

// pythons counts runs of Python tasks on AWS, whose sandboxes are invoked and
// report by requests.
func (t *tally) pythons(ctx context.Context) error {
	for _, f := range []struct {
		work  string
		tasks int
		flow  flow
	}{
		{pythonWork(chainWork(billedChain)), billedChain, silent(chain(billedChain))},
		{pythonWork(fanWork(billedFan)), billedFan, silent(fan(billedFan))},
	} {
		if f.tasks > t.widest {
			continue
		}
		if err := t.registerCode(ctx, f.flow); err != nil {
			return err
		}
		for _, counted := range []bool{false, true} { // the first fills the caches
			id, err := t.accept(ctx, f.flow)
			if err != nil {
				return err
			}
			t.lambda.invoked, t.posts, t.lines.bytes = 0, 0, 0
			do := func() error { return t.workRemote(ctx) }
			if !counted {
				err = do()
			} else if err = t.note(f.work, f.tasks, do); err == nil {
				c := &t.counts[len(t.counts)-1]
				c.Sandboxes, c.Posts, c.LogKB = t.lambda.invoked, t.posts, (t.lines.bytes+1023)/1024
			}
			if err == nil {
				err = t.finished(ctx, f.flow, id)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", f.work, err)
			}
		}
	}
	return nil
}

func pythonWork(work string) string { return "Python, " + work }
