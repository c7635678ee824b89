package crash_test

import (
	"context"
	"encoding/json"
	"errors"
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
	_ "millrace/localstack/embedded/server" // the binary is built from it
	"millrace/localstack/emulators"
	"millrace/localstack/proc"
	"millrace/localstack/proc/proctest"
	"millrace/shared/platform/blob/s3"
	"millrace/shared/platform/bus/eventbridge"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/queue/sqs"
	"millrace/shared/platform/table/dynamo"
	"millrace/shared/web/fn"
)

// workerSettings are the settings of a process of the service on the cloud's
// drivers.
type workerSettings struct {
	Table, Bucket, Bus, Prefix, Dir string
	DynamoDB, S3, SQS, EventBridge  string // endpoints
	AccessKey, SecretKey            string
}

func TestMain(m *testing.M) {
	proctest.Play(map[string]func(string) error{"worker": func(settings string) error {
		var s workerSettings
		if err := json.Unmarshal([]byte(settings), &s); err != nil {
			return err
		}
		return s.work()
	}})
	code := proctest.Main(m, map[string]*string{proctest.Local: &binary})
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

// deps returns the cloud's drivers.
func (s workerSettings) deps(log *slog.Logger) fn.Deps {
	now := clock.System{}
	d := fn.Deps{
		Clock: now, Log: log, Config: fn.Config{Version: "test", Region: emulators.Region, AllowLoopback: true, ProcessID: ids.Token(6)},
		Table: dynamo.New(dynamo.Config{Table: s.Table, AWS: s.aws(s.DynamoDB)}),
		Blob: s3.New(s3.Config{
			Bucket: s.Bucket, Region: emulators.Region, Endpoint: s.S3, AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true,
		}),
		Bus: eventbridge.New(eventbridge.Config{Bus: s.Bus, AWS: s.aws(s.EventBridge)}),
	}
	d.Queues = sqs.New(sqs.Config{Prefix: s.Prefix, AWS: s.aws(s.SQS), Objects: d.Blob, Clock: now, Log: log})
	return d
}

// work runs a process of the service: its API and its workers, which share the
// runs with other processes. When it listens it is ready and reports its
// address.
func (s workerSettings) work() error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	d := s.deps(log)
	pool, err := interpreters.New(interpreters.Config{Dir: s.Dir, Slots: 4})
	if err != nil {
		return err
	}
	defer pool.Close()
	d.Sandbox = pool
	service, err := catalog.Assemble(catalog.All(), d, catalog.Settings{
		CursorKeys: keyring.Static([]byte("a key that signs the cursors of tests")), Unlimited: true,
	})
	if err != nil {
		return err
	}
	d = service.Deps
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
	rt.Start(catalog.All(), true)
	server := &http.Server{Handler: service.API().Handler(), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := proc.Ready(os.Stdout, "http://"+listener.Addr().String()); err != nil {
		return err
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	rt.Stop(patience)
	return d.Logs.Close(patience)
}
