// Package cloud is a deployment on one machine, for tests: every function is a
// process of the real bootstrap binary behind a stand-in for the Lambda Runtime
// API, over DynamoDB Local and moto; the gateway, Lambda's Invoke, SQS's event
// source mappings and the sandbox functions are played by the test. As on
// Lambda a process handles one event at a time, is frozen by nobody, and another
// is started when all are busy.
package cloud

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/functions/sandboxlogs"
	"millrace/localstack/client"
	"millrace/localstack/emulators"
	"millrace/shared/fn"
	"millrace/shared/identity"
	"millrace/shared/ids"
	queues "millrace/shared/queue/sqs"
	"millrace/shared/sandbox/ticket"
	"millrace/shared/table"
	"millrace/shared/table/dynamo"
)

// sandboxPrefix stands before the tier in the names of the sandbox functions.
const sandboxPrefix = "sandbox-"

// Cloud is one deployment with a workspace. It ends with its test.
type Cloud struct {
	URL    string // of the gateway, and of Lambda's Invoke
	OrgID  string // of the workspace
	Client *client.Client
	Table  table.Table
	Prefix string // of the queues' names

	SQS *sqs.Client

	t       testing.TB
	binary  string
	specs   []fn.Spec
	bus     string
	bucket  string
	table   string
	env     []string // of every function
	running context.Context

	mu            sync.Mutex
	started, idle map[string][]*environment // by function, and workspace in the sandbox
}

// Open makes the resources of a deployment, all of them new, and serves it.
// binary is the bootstrap.
func Open(t testing.TB, binary string) *Cloud {
	t.Helper()
	id := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(ids.Token(9)))
	c := &Cloud{
		t: t, binary: binary, specs: catalog.All(), Prefix: "test-" + id + "-",
		table: "test-" + id, bucket: "test-" + id, bus: "test-" + id, started: map[string][]*environment{}, idle: map[string][]*environment{},
	}
	running, stop := context.WithCancel(context.Background())
	c.running = running
	db, objects, messages, bus := emulators.DynamoDB(t), emulators.S3(t), emulators.SQS(t), emulators.EventBridge(t)
	c.create(t, db, objects, messages, bus)

	routes := http.NewServeMux()
	routes.HandleFunc("POST /2015-03-31/functions/{name}/invocations", c.invoke)
	routes.Handle("/", c.gateway())
	server := httptest.NewServer(routes)
	t.Cleanup(func() {
		stop()
		c.end()
		server.CloseClientConnections()
		server.Close()
	})
	c.URL = server.URL

	secret := func(b byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, ticket.MinKey)) }
	credentials, err := db.Config().Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	c.env = []string{
		"AWS_REGION=" + emulators.Region,
		"AWS_ACCESS_KEY_ID=" + credentials.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + credentials.SecretAccessKey,
		"AWS_ENDPOINT_URL_DYNAMODB=" + db.URL, "AWS_ENDPOINT_URL_S3=" + objects.URL,
		"AWS_ENDPOINT_URL_SQS=" + messages.URL, "AWS_ENDPOINT_URL_EVENTBRIDGE=" + bus.URL, "AWS_ENDPOINT_URL_LAMBDA=" + c.URL,
		"MILLRACE_VERSION=1.2.3", "MILLRACE_LOG_LEVEL=warn",
		"MILLRACE_TABLE=" + c.table, "MILLRACE_BUCKET=" + c.bucket, "MILLRACE_BUS=" + c.bus, "MILLRACE_QUEUE_PREFIX=" + c.Prefix,
		"MILLRACE_CURSOR_KEY=" + secret(1), "MILLRACE_ATTEMPT_KEY=" + secret(2),
		"MILLRACE_SANDBOX_PREFIX=" + sandboxPrefix, "MILLRACE_LOG_URL=" + c.URL + sandboxlogs.Path,
	}
	made, err := identity.Bootstrap(t.Context(), c.Table, time.Now(), "Cloud", "owner@cloud.test", identity.Credentials{})
	require.NoError(t, err)
	c.OrgID = made.OrgID
	c.Client = &client.Client{BaseURL: c.URL, Token: made.APIKey}
	return c
}

// create makes table, bucket, queues and bus by the service's own definitions.
func (c *Cloud) create(t testing.TB, db, objects, messages, bus emulators.Endpoint) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, emulators.CreateTable(ctx, dynamodb.NewFromConfig(db.Config()), c.table))
	c.Table = dynamo.New(dynamo.Config{Table: c.table, AWS: func(context.Context) (aws.Config, error) { return db.Config(), nil }})
	_, err := s3.NewFromConfig(objects.Config(), func(o *s3.Options) { o.UsePathStyle = true }).
		CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &c.bucket})
	require.NoError(t, err)
	c.SQS = sqs.NewFromConfig(messages.Config())
	require.NoError(t, queues.CreateQueues(ctx, c.SQS, c.Prefix, catalog.Queues(c.specs)))
	_, err = eventbridge.NewFromConfig(bus.Config()).CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &c.bus})
	require.NoError(t, err)
}

// spec is a function of the catalog.
func (c *Cloud) spec(name string) (fn.Spec, error) {
	spec, found := catalog.Find(c.specs, name)
	if !found {
		return fn.Spec{}, fmt.Errorf("no function is named %s", name)
	}
	return spec, nil
}
