package runlog_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

const org, run = "org_test", "01RUN"

var errFault = errors.New("injected fault")

// world is a table and an object store that tests break, for any number of
// stores of logs, each as in a process of its own.
type world struct {
	t     testing.TB
	table *shakyTable
	blob  *shakyBlob
}

func newWorld(t testing.TB) *world {
	f := &injector{}
	return &world{t, &shakyTable{Table: memory.Table(t, clock.System{}), injector: f}, &shakyBlob{Store: &blobtest.Memory{}, injector: f}}
}

func (w *world) store() *runlog.Store { return w.storeAt(0) }

// storeAt is that of a process whose clock goes wrong.
func (w *world) storeAt(skew time.Duration) *runlog.Store {
	now := clock.Func(func() time.Time { return time.Now().Add(skew) })
	return &runlog.Store{Table: w.table, Blob: w.blob, Clock: now, Log: slog.New(slog.DiscardHandler)}
}

// injector decides of each write whether it fails, before it is done or after.
type injector struct {
	mu     sync.Mutex
	writes int
	decide func(ctx context.Context, n int, what string) (before, after error)
}

func (f *injector) set(decide func(ctx context.Context, n int, what string) (error, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes, f.decide = 0, decide
}

func (f *injector) do(ctx context.Context, what string, write func() error) error {
	f.mu.Lock()
	f.writes++
	n, decide := f.writes, f.decide
	f.mu.Unlock()
	if decide == nil {
		return write()
	}
	before, after := decide(ctx, n, what)
	if before != nil {
		return before
	}
	return errors.Join(write(), after)
}

type shakyTable struct {
	table.Table
	*injector
	onQuery func(table.Query)
	onPut   func(table.Key) (before, after error)
	blind   table.Key // this item is not found
}

func (t *shakyTable) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	if key == t.blind {
		return nil, table.ErrNotFound
	}
	return t.Table.Get(ctx, key, opts...)
}

func (t *shakyTable) Update(ctx context.Context, u table.Update) (item table.Item, err error) {
	err = t.do(ctx, "update", func() error { item, err = t.Table.Update(ctx, u); return err })
	return item, err
}

func (t *shakyTable) Put(ctx context.Context, p table.Put) error {
	if t.onPut != nil {
		before, after := t.onPut(p.Target())
		if before != nil {
			return before
		}
		if after != nil {
			return errors.Join(t.Table.Put(ctx, p), after)
		}
	}
	return t.do(ctx, "put", func() error { return t.Table.Put(context.WithoutCancel(ctx), p) })
}

func (t *shakyTable) Delete(ctx context.Context, d table.Delete) error {
	return t.do(ctx, "delete", func() error { return t.Table.Delete(ctx, d) })
}

func (t *shakyTable) BatchWrite(ctx context.Context, ws []table.Write) error {
	return t.do(ctx, "batch", func() error { return t.Table.BatchWrite(ctx, ws) })
}

func (t *shakyTable) Query(ctx context.Context, q table.Query) (table.Page, error) {
	if t.onQuery != nil {
		t.onQuery(q)
	}
	return t.Table.Query(ctx, q)
}

type shakyBlob struct {
	blob.Store
	*injector
	onPut func(key string)
	onGet func(key string)
}

func (b *shakyBlob) Get(ctx context.Context, key string, rng *blob.Range) (io.ReadCloser, blob.Object, error) {
	if b.onGet != nil {
		b.onGet(key)
	}
	return b.Store.Get(ctx, key, rng)
}

func (b *shakyBlob) Put(ctx context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (obj blob.Object, err error) {
	if b.onPut != nil {
		b.onPut(key)
	}
	err = b.do(ctx, "object", func() error { obj, err = b.Store.Put(ctx, key, body, size, opts); return err })
	return obj, err
}

func (b *shakyBlob) Delete(ctx context.Context, keys ...string) error {
	return b.do(ctx, "delete objects", func() error { return b.Store.Delete(ctx, keys...) })
}

// noise is text that does not compress well.
var noise = func() string {
	raw := make([]byte, 64<<10)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(raw)
	return hex.EncodeToString(raw)
}()

// line is an event of a writer.
func line(writer string, n, size int) runlog.Event {
	return runlog.Event{
		EventType: runlog.TypeLog, Message: fmt.Sprintf("%s %d %s", writer, n, noise[n%1000:n%1000+size]),
		Timestamp: clock.ToMillis(time.Now()), RunID: run, TaskName: writer, Sequence: int64(n),
	}
}

// fill appends lines 1 to n of one writer and stores them in batches.
func (w *world) fill(s *runlog.Store, id string, n, batch, size int) {
	w.t.Helper()
	for i := 1; i <= n; i++ {
		s.Append(org, id, line("w", i, size))
		if i%batch == 0 || i == n {
			require.NoError(w.t, s.Flush(w.t.Context(), org, id))
		}
	}
}

type event struct {
	TaskName string `json:"task_name"`
	Sequence int    `json:"sequence"`
}

func name(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	var e event
	require.NoError(t, json.Unmarshal(raw, &e), "%s", raw)
	return fmt.Sprintf("%s %d", e.TaskName, e.Sequence)
}

// read pages from a position to the end and returns the events' names.
func (w *world) read(s *runlog.Store, id string, ended bool, from table.Cursor, limit int) ([]string, runlog.Page) {
	w.t.Helper()
	var all []string
	for {
		page, err := s.Page(w.t.Context(), org, id, ended, from, limit)
		require.NoError(w.t, err)
		require.LessOrEqual(w.t, len(page.Events), limit)
		for _, raw := range page.Events {
			all = append(all, name(w.t, raw))
		}
		if page.Next == "" || page.Source == runlog.Live && len(page.Events) == 0 {
			return all, page
		}
		require.NotEqual(w.t, from, page.Next, "a page goes on")
		from = page.Next
	}
}

func lines(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("w %d", i+1)
	}
	return all
}

// batches counts the items of a live log, and objects lists what the run has in
// the object store.
func (w *world) batches(id string) int {
	w.t.Helper()
	n := 0
	for _, each := range w.spread(id) {
		n += each
	}
	return n
}

// spread counts the items of a live log in each of its partitions.
func (w *world) spread(id string) []int {
	w.t.Helper()
	var all []int
	for _, pk := range runstate.LogPartitions(org, id) {
		n := 0
		for _, err := range table.All(w.t.Context(), w.table, table.Query{PK: pk}) {
			require.NoError(w.t, err)
			n++
		}
		all = append(all, n)
	}
	return all
}

// has holds that of a writer's lines those from 1 to n are there, once and in
// order.
func (w *world) has(got []string, writer string, n int) {
	w.t.Helper()
	own := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.HasPrefix(s, writer+" ") })
	want := make([]string, n)
	for i := range want {
		want[i] = fmt.Sprint(writer, " ", i+1)
	}
	assert.Equal(w.t, want, own)
}

func (w *world) objects(id string) []string {
	w.t.Helper()
	var keys []string
	found, _, err := w.blob.List(w.t.Context(), runstate.Object(org, id, ""), "", 0)
	require.NoError(w.t, err)
	for _, o := range found {
		keys = append(keys, o.Key)
	}
	return keys
}

// settled lets all that is stored grow old enough to be shown.
func settled() { time.Sleep(time.Second) } // of the bubble's time
