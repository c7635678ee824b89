package runlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/table"
	"millrace/shared/run/runlog"
	"millrace/shared/run/runstate"
)

// step is something that a process does to the log.
type step struct {
	Kind    string
	Process int
	N       int           // lines, or writes until the crash
	Size    int           // of a line
	After   bool          // it crashes after the write
	Pause   time.Duration // before the next step
}

const processes = 4

var steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
	return step{
		Kind:    rapid.SampledFrom([]string{"append", "append", "append", "flush", "flush", "archive", "crash", "kill"}).Draw(t, "kind"),
		Process: rapid.IntRange(0, processes-1).Draw(t, "process"),
		N:       rapid.IntRange(1, 12).Draw(t, "n"),
		Size:    rapid.SampledFrom([]int{1, 500, 6000}).Draw(t, "size"),
		After:   rapid.Bool().Draw(t, "after"),
		Pause:   time.Duration(rapid.SampledFrom([]int{0, 3, 40, 300, 3000}).Draw(t, "pause ms")) * time.Millisecond,
	}
}), 1, 40)

// history is a log to which processes write, and which they archive, over a
// table and an object store that fail.
type history struct {
	t       *testing.T
	plan    *faults.Plan
	table   table.Table
	blob    blob.Store
	dice    sync.Mutex
	rng     *rand.Rand
	all     []*logWriter // that ever were
	live    [processes]*logWriter
	working sync.WaitGroup
	over    bool // requests take no time
}

// logWriter is a process with a log store.
type logWriter struct {
	*runlog.Store
	process  *faults.Process
	name     string
	mu       sync.Mutex
	appended int
	flushed  int // lines that a Flush has acknowledged
	dead     bool
}

func (h *history) roll(n int) int {
	h.dice.Lock()
	defer h.dice.Unlock()
	return h.rng.IntN(n)
}

// Enter makes every request take its time, now and then more than it is given.
func (h *history) Enter(ctx context.Context, _ faults.Request) error {
	h.dice.Lock()
	most := 20_000
	if h.rng.IntN(12) == 0 {
		most = 500_000
	}
	if h.over {
		most = 1
	}
	took := time.Duration(h.rng.IntN(most)) * time.Microsecond
	h.dice.Unlock()
	if took == 0 {
		return nil
	}
	select {
	case <-time.After(took):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *history) start(i int) {
	name := fmt.Sprintf("w%d", len(h.all))
	w := &logWriter{name: name, process: h.plan.Process(name, h)}
	skew := time.Duration(h.roll(8000)-4000) * time.Millisecond
	w.Store = &runlog.Store{
		Table: w.process.Table(), Blob: &mortal{h.blob, w.process, h},
		Clock: clock.Func(func() time.Time { return time.Now().Add(skew) }), Log: slog.New(slog.DiscardHandler),
	}
	h.live[i] = w
	h.all = append(h.all, w)
}

// mortal is the object store as a process sees it: now and then it fails.
type mortal struct {
	blob.Store
	of *faults.Process
	h  *history
}

func (m *mortal) do(write func() error) error {
	select {
	case <-m.of.Died():
		return faults.ErrDead
	default:
	}
	fails := m.h.roll(20)
	if fails == 0 {
		return faults.ErrInjected
	}
	err := write()
	if fails == 1 {
		return faults.ErrInjected
	}
	return err
}

func (m *mortal) Put(ctx context.Context, key string, body io.Reader, size int64, opts blob.PutOptions) (obj blob.Object, err error) {
	err = m.do(func() error { obj, err = m.Store.Put(ctx, key, body, size, opts); return err })
	return obj, err
}

func (m *mortal) Delete(ctx context.Context, keys ...string) error {
	return m.do(func() error { return m.Store.Delete(ctx, keys...) })
}

func (w *logWriter) flush(ctx context.Context) error {
	w.mu.Lock()
	n := w.appended
	w.mu.Unlock()
	err := w.Flush(ctx, org, run)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.flushed = max(w.flushed, n)
	}
	return err
}

// play takes the steps, each while those before it may still be under way.
func (h *history) play(script []step) {
	for _, s := range script {
		w := h.live[s.Process]
		switch s.Kind {
		case "append":
			w.mu.Lock()
			for range s.N {
				w.appended++
				w.Append(org, run, line(w.name, w.appended, s.Size))
			}
			w.mu.Unlock()
		case "flush":
			h.working.Go(func() { _ = w.flush(h.t.Context()) })
		case "archive":
			h.working.Go(func() { _ = w.Archive(h.t.Context(), org, run) })
		case "crash":
			w.process.CrashAt(s.N, s.After)
		case "kill":
			w.process.Kill()
		}
		time.Sleep(s.Pause + time.Duration(h.roll(1000)))
		for i, w := range h.live {
			select {
			case <-w.process.Died():
				w.dead = true
				h.start(i)
			default:
			}
		}
	}
}

// finish lets everything go well until all is done: whoever lives flushes, and
// the archive is made, if it does not stand.
func (h *history) finish() {
	h.working.Wait()
	h.plan.Calm()
	for _, w := range h.live {
		w.process.CrashAt(0, false)
		select {
		case <-w.process.Died():
			w.dead = true
			continue
		default:
		}
		for w.flush(h.t.Context()) != nil {
			time.Sleep(time.Second)
		}
	}
	last := &runlog.Store{Table: h.table, Blob: h.blob, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)}
	require.NoError(h.t, last.Archive(h.t.Context(), org, run))
}

// stop has all processes do what they still do at once, and then nothing.
func (h *history) stop() {
	h.dice.Lock()
	h.over = true
	h.dice.Unlock()
	for _, w := range h.all {
		w.process.Kill()
	}
	time.Sleep(time.Minute)
	synctest.Wait()
}

// follow reads the log until it is at its end.
func (h *history) follow(over <-chan struct{}) ([]string, error) {
	s := &runlog.Store{Table: h.table, Blob: h.blob, Clock: clock.System{}, Log: slog.New(slog.DiscardHandler)}
	var got []string
	for from, ended := table.Cursor(""), false; ; {
		page, err := s.Page(h.t.Context(), org, run, ended, from, 1+h.roll(30))
		if err != nil {
			return got, err
		}
		for _, raw := range page.Events {
			var e event
			if err := json.Unmarshal(raw, &e); err != nil {
				return got, err
			}
			got = append(got, fmt.Sprintf("%s %d", e.TaskName, e.Sequence))
		}
		if from = page.Next; from == "" {
			return got, nil
		}
		select {
		case <-over:
			ended = true
		case <-time.After(time.Duration(h.roll(1000)) * time.Millisecond):
		}
	}
}

// check tells what is wrong with the log at the end, and with what one saw who
// followed it.
func (h *history) check(followed []string) error {
	over := make(chan struct{})
	close(over)
	got, err := h.follow(over)
	if err != nil {
		return err
	}
	head, err := h.table.Get(h.t.Context(), runstate.ArchiveKey(org, run))
	if err != nil || int(head["n"].Int()) != len(got) {
		return fmt.Errorf("the archive counts %d lines and shows %d: %w", head["n"].Int(), len(got), err)
	}
	seen := map[string]int{}
	for _, name := range got {
		var w, n int
		_, _ = fmt.Sscanf(name, "w%d %d", &w, &n)
		of := h.all[w]
		if n <= seen[of.name] {
			return fmt.Errorf("line %d of %s comes after line %d", n, of.name, seen[of.name])
		}
		// A batch of a process that died before may be there or not.
		if n > seen[of.name]+1 && !of.dead {
			return fmt.Errorf("line %d of %s follows line %d", n, of.name, seen[of.name])
		}
		seen[of.name] = n
	}
	for _, w := range h.all {
		want := w.appended
		if w.dead {
			want = w.flushed
		}
		if seen[w.name] < want {
			return fmt.Errorf("%s has %d lines of at least %d", w.name, seen[w.name], want)
		}
	}
	for _, name := range followed {
		if !slices.Contains(got, name) {
			return fmt.Errorf("%s was shown and is gone", name)
		}
	}
	slices.Sort(followed)
	if len(slices.Compact(followed)) != len(followed) {
		return errors.New("a line was shown twice")
	}
	for _, pk := range runstate.LogPartitions(org, run) {
		page, err := h.table.Query(h.t.Context(), table.Query{PK: pk})
		if err != nil || len(page.Items) > 0 {
			return fmt.Errorf("%d batches are left in %s: %w", len(page.Items), pk, err)
		}
	}
	return nil
}

// TestHistories plays drawn histories of processes that append, flush, archive
// and die, on a table and an object store that refuse requests, lose answers and
// take too long, with clocks that are seconds apart. Whatever happens, when the
// survivors have flushed and the archive stands it has every line that they
// appended and every line that was ever acknowledged, once, each writer's in
// order, and no batch is left; and one who followed saw no line twice.
func TestHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		script, seed := steps.Draw(rt, "steps"), rapid.Uint64().Draw(rt, "seed")
		rates := faults.Rates{}
		if rapid.Bool().Draw(rt, "faults") {
			rates = faults.Rates{Throttle: 0.1, Before: 0.05, After: 0.1}
		}
		var problem error
		synctest.Test(t, func(t *testing.T) {
			h := &history{t: t, table: memory.Table(t, clock.System{}), blob: &blobtest.Memory{}, rng: rand.New(rand.NewPCG(seed, 3))}
			h.plan = faults.NewPlan(t, seed, rates, h.table, clock.System{})
			for i := range h.live {
				h.start(i)
			}
			over := make(chan struct{})
			var followed []string
			var failed error
			var follower sync.WaitGroup
			follower.Go(func() { followed, failed = h.follow(over) })
			h.play(script)
			h.finish()
			close(over)
			follower.Wait()
			problem = errors.Join(failed, h.check(followed))
			h.stop()
		})
		if problem != nil {
			rt.Fatal(problem)
		}
	})
}
