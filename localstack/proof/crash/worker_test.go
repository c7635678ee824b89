package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"millrace/functions/catalog"
	"millrace/localstack/embedded/interpreters"
	"millrace/localstack/embedded/runtime"
	"millrace/localstack/emulators"
	"millrace/localstack/process/processtest"
	"millrace/shared/blob/s3"
	"millrace/shared/bus/eventbridge"
	"millrace/shared/clock"
	"millrace/shared/fn"
	"millrace/shared/httpapi"
	"millrace/shared/identity"
	"millrace/shared/ids"
	"millrace/shared/queue/sqs"
	"millrace/shared/runlog"
	hub "millrace/shared/signal"
	"millrace/shared/table/dynamo"
)

// workerSettings are what a process of the service on the cloud's drivers needs
// to know.
type workerSettings struct {
	Table, Bucket, Bus, Prefix, Dir string
	DynamoDB, S3, SQS, EventBridge  string // endpoints
	AccessKey, SecretKey            string
}

// workerVariable makes the test binary such a process.
const workerVariable = "CRASH_TEST_WORKER"

func TestMain(m *testing.M) {
	if raw := os.Getenv(workerVariable); raw != "" {
		var s workerSettings
		err := json.Unmarshal([]byte(raw), &s)
		if err == nil {
			err = s.work()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := processtest.Main(m, &binary)
	emulators.StopAll()
	os.Exit(code)
}

func (s workerSettings) aws(endpoint string) func(context.Context) (aws.Config, error) {
	cfg := aws.Config{
		Region: emulators.Region, BaseEndpoint: &endpoint,
		Credentials: credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, ""),
	}
	return func(context.Context) (aws.Config, error) { return cfg, nil }
}

// deps are the cloud's drivers.
func (s workerSettings) deps(log *slog.Logger) fn.Deps {
	now := clock.System{}
	d := fn.Deps{
		Clock: now, Log: log, Hub: &hub.Hub{}, Config: fn.Config{Version: "test", Region: emulators.Region, AllowLoopback: true, Boot: ids.Token(6)},
		Table: dynamo.New(dynamo.Config{Table: s.Table, AWS: s.aws(s.DynamoDB)}),
		Blob: s3.New(s3.Config{
			Bucket: s.Bucket, Region: emulators.Region, Endpoint: s.S3, AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true,
		}),
		Bus: eventbridge.New(eventbridge.Config{Bus: s.Bus, AWS: s.aws(s.EventBridge)}),
	}
	d.Queues = sqs.New(sqs.Config{Prefix: s.Prefix, AWS: s.aws(s.SQS), Objects: d.Blob, Clock: now, Log: log})
	d.Logs = &runlog.Store{Table: d.Table, Blob: d.Blob, Clock: now, Log: log}
	return d
}

// work is a process of the service: its API and its workers, which share the
// runs with those of other processes. It writes where it listens.
func (s workerSettings) work() error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	d := s.deps(log)
	pool, err := interpreters.New(interpreters.Config{Dir: s.Dir, Slots: 4})
	if err != nil {
		return err
	}
	defer pool.Close()
	d.Sandbox = pool
	auth, err := identity.NewAuthenticator(identity.Config{Table: d.Table, Clock: d.Clock, Log: log})
	if err != nil {
		return err
	}
	api := httpapi.New(httpapi.Config{
		Title: "Millrace", Version: "test", Authenticator: auth, Clock: d.Clock, CursorKey: []byte("a key that signs the cursors of tests"), Log: log,
	})
	for _, spec := range catalog.All() {
		if spec.Routes != nil {
			spec.Routes(api, d)
		}
	}
	rt, err := runtime.New(runtime.Config{Specs: catalog.All(), Deps: d, Workers: 16})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() { // ends with the test that started it
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(2)
	}()
	rt.Start(catalog.All(), true)
	server := &http.Server{Handler: api.Handler(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println("http://" + listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rt.Stop(patience)
	return d.Logs.Close(patience)
}
