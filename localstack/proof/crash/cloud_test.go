package crash_test

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/emulators"
	"millrace/localstack/proc/proctest"
	"millrace/localstack/proof/crash"
	"millrace/localstack/proof/fsck"
	"millrace/shared/account/identity"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/queue/sqs"
	"millrace/shared/platform/table"
)

var cloudCrashes = flag.Int("cloud-crashes", 2, "how often to kill a worker on the cloud's drivers")

// visibility is longer than a lease, so that a message of a dead worker is
// delivered again when its lease has expired.
const visibility = 35 * time.Second

// line is a worker's connection to DynamoDB. At one of its writes the worker is
// killed: before or after the write is applied, and without a response.
type line struct {
	http.Handler
	mu     sync.Mutex
	writes int
	at     int // 0: never
	before bool
	kill   func()
}

func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	action := r.Header.Get("X-Amz-Target")
	write := strings.HasSuffix(action, "Item") && !strings.HasSuffix(action, "GetItem") || strings.HasSuffix(action, "WriteItems")
	l.mu.Lock()
	if write {
		l.writes++
	}
	fatal := write && l.writes == l.at
	before, kill := l.before, l.kill
	l.mu.Unlock()
	switch {
	case fatal && before:
		kill()
		panic(http.ErrAbortHandler)
	case fatal:
		l.Handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(context.WithoutCancel(r.Context())))
		kill()
		panic(http.ErrAbortHandler)
	}
	l.Handler.ServeHTTP(w, r)
}

// seen returns the number of writes that the worker has made.
func (l *line) seen() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes
}

// deployment is the service on DynamoDB Local and moto.
type deployment struct {
	t        *testing.T
	settings workerSettings
	key      string
	queues   *awssqs.Client
	db       *dynamodb.Client
	last     *fsck.Snapshot
}

func deploy(t *testing.T) *deployment {
	ctx := t.Context()
	name := "test-" + strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(ids.Token(9)))
	db, objects, messages, bus := emulators.DynamoDB(t), emulators.S3(t), emulators.SQS(t), emulators.EventBridge(t)
	keys, err := db.Config().Credentials.Retrieve(ctx)
	require.NoError(t, err)
	d := &deployment{
		t: t, db: dynamodb.NewFromConfig(db.Config()), queues: awssqs.NewFromConfig(messages.Config()),
		settings: workerSettings{
			Table: name, Bucket: name, Bus: name, Prefix: name + "-", DynamoDB: db.URL, S3: objects.URL, SQS: messages.URL, EventBridge: bus.URL,
			AccessKey: keys.AccessKeyID, SecretKey: keys.SecretAccessKey,
		},
	}
	require.NoError(t, emulators.CreateTable(ctx, d.db, name))
	_, err = s3.NewFromConfig(objects.Config(), func(o *s3.Options) { o.UsePathStyle = true }).CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &name})
	require.NoError(t, err)
	definitions := catalog.Queues(catalog.All())
	for i := range definitions {
		definitions[i].Visibility = visibility
	}
	require.NoError(t, sqs.CreateQueues(ctx, d.queues, d.settings.Prefix, definitions))
	_, err = eventbridge.NewFromConfig(bus.Config()).CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &name})
	require.NoError(t, err)
	made, err := identity.Bootstrap(ctx, d.settings.deps(slog.New(slog.DiscardHandler)).Table, time.Now(), "Cloud", "owner@cloud.test", identity.Credentials{})
	require.NoError(t, err)
	d.key = made.APIKey
	return d
}

// worker is a process of the service.
type worker struct {
	*proctest.Child
	api  *client.Client // nil: it was killed before it was ready
	line *line
}

// start starts a worker, whose line kills it at a write.
func (d *deployment) start(at int, before bool) *worker {
	t := d.t
	target, err := url.Parse(d.settings.DynamoDB)
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	w := &worker{line: &line{Handler: proxy, at: at, before: before}}
	server := httptest.NewUnstartedServer(w.line)
	server.Config.ErrorLog = proxy.ErrorLog
	server.Start()
	t.Cleanup(server.Close)
	settings := d.settings
	settings.DynamoDB = server.URL
	settings.Dir, err = os.MkdirTemp("", "millrace-worker-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(settings.Dir) })
	raw, err := json.Marshal(settings)
	require.NoError(t, err)
	w.line.mu.Lock() // until there is a child to kill
	w.Child = proctest.Start(t, "worker", string(raw))
	w.line.kill = w.Kill
	w.line.mu.Unlock()
	if base, err := w.Await(t.Context()); err == nil {
		w.api = &client.Client{BaseURL: base, Token: d.key}
	}
	return w
}

// read takes a snapshot of the table while no worker runs, when two reads agree:
// the database may still be at the last request of a worker that was killed.
func (d *deployment) read(ctx context.Context, messages ...fsck.Message) *fsck.Snapshot {
	t := d.t
	deps := d.settings.deps(slog.New(slog.DiscardHandler))
	var items []table.Item
	for before := d.items(ctx, deps.Table); ; before = items {
		time.Sleep(50 * time.Millisecond)
		if items = d.items(ctx, deps.Table); reflect.DeepEqual(before, items) {
			break
		}
	}
	s, err := fsck.New(ctx, time.Now(), items, deps.Blob)
	require.NoError(t, err)
	s.Messages = messages
	return s
}

// items returns all items of the table.
func (d *deployment) items(ctx context.Context, from table.Table) []table.Item {
	var keys []table.Key
	pages := dynamodb.NewScanPaginator(d.db, &dynamodb.ScanInput{TableName: &d.settings.Table, ProjectionExpression: aws.String("pk, sk")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		require.NoError(d.t, err)
		for _, item := range page.Items {
			pk, sk := item["pk"].(*ddb.AttributeValueMemberS), item["sk"].(*ddb.AttributeValueMemberS)
			keys = append(keys, table.Key{PK: pk.Value, SK: sk.Value})
		}
	}
	all, err := from.BatchGet(ctx, keys, table.Consistent)
	require.NoError(d.t, err)
	slices.SortFunc(all, func(a, b table.Item) int {
		return cmp.Or(strings.Compare(a.Key().PK, b.Key().PK), strings.Compare(a.Key().SK, b.Key().SK))
	})
	return all
}

// waiting returns the number of messages in a queue that are not delayed.
func (d *deployment) waiting(ctx context.Context, name string) int {
	got, err := d.queues.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: aws.String(d.settings.Prefix + name)})
	require.NoError(d.t, err)
	attributes := []types.QueueAttributeName{types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible}
	all, err := d.queues.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: got.QueueUrl, AttributeNames: attributes})
	require.NoError(d.t, err)
	n := 0
	for _, a := range attributes {
		var k int
		_, err := fmt.Sscan(all.Attributes[string(a)], &k)
		require.NoError(d.t, err)
		n += k
	}
	return n
}

// empty waits until the queues have only delayed messages.
func (d *deployment) empty(ctx context.Context) {
	require.Eventually(d.t, func() bool {
		return !slices.ContainsFunc(catalog.Queues(catalog.All()), func(q queue.Definition) bool {
			return d.waiting(ctx, q.Name) > 0
		})
	}, 3*visibility, time.Second, "messages are left")
}

// TestCloudCrashes kills workers on the cloud's drivers at random writes. Two
// at a time share all runs.
func TestCloudCrashes(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	h, err := crash.NewHistory(*seed)
	require.NoError(t, err)
	defer h.Close()
	rng := rand.New(rand.NewPCG(*seed, 2))
	first := d.start(0, false)
	require.NotNil(t, first.api, "%s", first.Output())
	require.NoError(t, h.Register(t.Context(), first.api))
	first.Kill()

	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { h.Drive(ctx) })
	defer func() { stop(); clients.Wait() }()
	began, deaths, idle, writes := time.Now(), 0, 0, 0
	for deaths < *cloudCrashes && !t.Failed() {
		h.Allow(10)
		pair := []*worker{d.start(1+rng.IntN(300), rng.IntN(2) == 0), d.start(1+rng.IntN(300), rng.IntN(2) == 0)}
		for _, w := range pair {
			if w.api != nil {
				h.Serve(w.api)
			}
			select {
			case <-w.Exited():
			case <-time.After(4 * time.Second):
				idle++
				w.Kill()
			}
			deaths++
			writes += w.line.seen()
			if out := w.Output(); out != "" {
				t.Logf("a worker wrote:\n%.4000s", out)
				assert.NotContains(t, out, "panic")
			}
		}
		h.Serve(nil)
		now := d.read(t.Context())
		assert.Empty(t, now.Check(t.Context()), "after %d deaths", deaths)
		if d.last != nil {
			assert.Empty(t, fsck.Changes(d.last, now), "after %d deaths", deaths)
		}
		d.last = now
		if deaths%20 == 0 {
			t.Logf("%d deaths, %d items, %d runs", deaths, now.Len(), len(now.Runs()))
		}
	}
	stop()
	clients.Wait()
	took, began := time.Since(began), time.Now()
	w := d.start(0, false)
	require.NotNil(t, w.api, "%s", w.Output())
	defer func() {
		if t.Failed() {
			w.Kill()
			t.Logf("the last worker wrote:\n%.8000s", w.Output())
		}
	}()
	settle, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	require.NoError(t, h.Settle(settle, w.api))
	d.empty(t.Context())
	require.NoError(t, w.Stop())
	now := d.read(t.Context())
	found := slices.Concat(now.Check(t.Context()), now.CheckIdle(t.Context()), fsck.Changes(d.last, now), h.Judge(now))
	assert.Empty(t, found)
	t.Logf("%d deaths (%d idle) after %d writes in %s, settled in %s; %d items, %+v; requests %v", deaths, idle, writes,
		took.Round(time.Second), time.Since(began).Round(time.Second), now.Len(), crash.Count(now), h.Requests())
}
