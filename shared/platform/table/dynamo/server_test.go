package dynamo

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/shared/platform/table"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/assert"
)

// answer is a server's response to one request.
type answer struct {
	status int
	body   string
}

func ok(body string) answer { return answer{http.StatusOK, body} }

// refusal is an error response of DynamoDB.
func refusal(code, message string) answer {
	body, _ := json.Marshal(map[string]string{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": message})
	return answer{http.StatusBadRequest, string(body)}
}

var broken = answer{http.StatusInternalServerError, `{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}`}

// cut is a response that breaks off in the middle.
var cut = answer{http.StatusOK, `{"Attri`}

// request is a recorded request.
type request struct {
	operation string
	body      map[string]any
}

// server is a DynamoDB that replies with a script of answers and repeats the
// last one.
type server struct {
	mu       sync.Mutex
	script   []answer
	requests []request
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	asked := request{operation: operation}
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, &asked.body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusTeapot)
		return
	}
	s.requests = append(s.requests, asked)
	say := s.script[0]
	if len(s.script) > 1 {
		s.script = s.script[1:]
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(say.status)
	_, _ = io.WriteString(w, say.body)
	if say == cut {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// serving returns a driver with short pauses on a server with that script.
func serving(t *testing.T, script ...answer) (*Table, *server) {
	t.Helper()
	s := &server{script: script}
	return on(t, s), s
}

func on(t *testing.T, handler http.Handler) *Table {
	t.Helper()
	srv := httptest.NewServer(handler)
	t.Cleanup(srv.Close)
	tbl := New(Config{Table: "things", AWS: func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(srv.URL),
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	}})
	tbl.pause = backoff{base: time.Microsecond, most: 10 * time.Microsecond}
	return tbl
}

var key = table.Key{PK: "p", SK: "s"}

func item(sk string) table.Item {
	return table.Item{"pk": table.V("p"), "sk": table.V(sk)}
}

// calls has one call of every method.
var calls = map[string]func(ctx context.Context, t *Table) error{
	"Get":      func(ctx context.Context, t *Table) error { _, err := t.Get(ctx, key); return err },
	"BatchGet": func(ctx context.Context, t *Table) error { _, err := t.BatchGet(ctx, []table.Key{key}); return err },
	"Query":    func(ctx context.Context, t *Table) error { _, err := t.Query(ctx, table.Query{PK: "p"}); return err },
	"Put":      func(ctx context.Context, t *Table) error { return t.Put(ctx, table.Put{Item: item("s")}) },
	"Delete":   func(ctx context.Context, t *Table) error { return t.Delete(ctx, table.Delete{Key: key}) },
	"Update":   update(table.Set("n", 1)),
	"Transact": func(ctx context.Context, t *Table) error { return t.Transact(ctx, table.Put{Item: item("s")}) },
	"BatchWrite": func(ctx context.Context, t *Table) error {
		return t.BatchWrite(ctx, []table.Write{table.Put{Item: item("s")}})
	},
	"Check": func(ctx context.Context, t *Table) error { return t.Check(ctx) },
}

func update(do ...table.Action) func(context.Context, *Table) error {
	return func(ctx context.Context, t *Table) error {
		_, err := t.Update(ctx, table.Update{Key: key, Do: do})
		return err
	}
}

// each runs a test for every method.
func each(t *testing.T, test func(t *testing.T, call func(context.Context, *Table) error)) {
	t.Helper()
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, call)
		})
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	b := backoff{base: 50 * time.Millisecond, most: 2 * time.Second}
	for failed, most := range map[int]time.Duration{
		0: 50 * time.Millisecond, 1: 50 * time.Millisecond, 2: 100 * time.Millisecond,
		6: 1600 * time.Millisecond, 7: 2 * time.Second, 1000: 2 * time.Second,
	} {
		for range 100 {
			assert.LessOrEqual(t, b.delay(failed), most, failed)
		}
	}
}
