package launch_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/account/audit"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/notify"
	"millrace/shared/platform/queue"
	"millrace/shared/platform/table"
	"millrace/shared/run/launch"
)

const org = "org_test"

// used is the state of an idempotency key: the first request with it, and its
// run; "" while the response that names it was lost.
type used struct{ request, run string }

type keyCall struct{ key, request string }

type keyAnswer struct {
	run     string
	refused bool // the key was used for another request
	unknown bool // the response was lost: it is unknown whether the run was accepted
}

// keyModel is a register that is set by the first request.
var keyModel = (&porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[string][]porcupine.Operation{}
		for _, op := range history {
			key := op.Input.(keyCall).key
			by[key] = append(by[key], op)
		}
		var out [][]porcupine.Operation
		for _, part := range by {
			out = append(out, part)
		}
		return out
	},
	Init: func() []any { return []any{used{}} },
	Step: func(state, input, output any) []any {
		known, in, out := state.(used), input.(keyCall), output.(keyAnswer)
		free := known == used{}
		switch {
		case out.unknown && free:
			return []any{known, used{request: in.request}}
		case out.unknown:
			return []any{known}
		case out.refused && !free && known.request != in.request:
			return []any{known}
		case !out.refused && (free || known == used{request: in.request} || known == used{in.request, out.run}):
			return []any{used{in.request, out.run}}
		}
		return nil
	},
}).ToModel()

// TestKeysAreLinearizable sends requests with few idempotency keys from several
// processes at once, to a table that fails: there is an order in which the
// first request of a key makes a run, each equal request returns that run, and
// any other is rejected.
func TestKeysAreLinearizable(t *testing.T) {
	t.Parallel()
	seen := map[keyAnswer]int{}
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			k := newKeys(t)
			k.play(seed)
			require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(keyModel, k.history, 10*time.Second), "seed %d: %+v", seed, k.history)
			k.check()
			for _, op := range k.history {
				out := op.Output.(keyAnswer)
				out.run = ""
				seen[out]++
			}
		})
	}
	for _, kind := range []keyAnswer{{}, {refused: true}, {unknown: true}} {
		assert.Greater(t, seen[kind], 100, "%+v", kind)
	}
}

const (
	keyCount     = 4
	requestCount = 2
)

// keys records a history of requests.
type keys struct {
	t       *testing.T
	ctx     context.Context
	store   *pebbletable.Table
	objects *blobtest.Memory
	queues  *pebblequeue.Queues

	tick    atomic.Int64 // orders calls and responses
	mu      sync.Mutex
	history []porcupine.Operation
}

func newKeys(t *testing.T) *keys { return newKeysIn(t, memory.Store(t)) }

// newKeysIn keeps table and queues in a store.
func newKeysIn(t *testing.T, db *store.DB) *keys {
	k := &keys{t: t, store: pebbletable.New(db, clock.System{}), objects: &blobtest.Memory{}}
	k.ctx = fixture.Owner(t.Context(), org)
	k.queues = memory.QueuesIn(t, db, clock.System{}, []queue.Definition{{Name: events.Tasks("nano"), Visibility: time.Minute}})
	k.register(k.ctx)
	return k
}

// register registers the flow of the runs, in the workspace of ctx.
func (k *keys) register(ctx context.Context) {
	spec := `{"tasks":[{"name":"a","type":"python","entrypoint":"m:f"}]}`
	require.NoError(k.t, fixture.Register(ctx, k.store, k.objects, "f", spec))
}

// launcher returns a launcher over a table.
func (k *keys) launcher(tbl table.Table) *launch.Launcher {
	return &launch.Launcher{
		Table: tbl, Queues: k.queues, Blob: k.objects, Clock: clock.System{},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Broker: &notify.Broker{},
	}
}

// play makes requests in several processes. The seed determines their order and
// which of them fail. At the end it requests each key once more.
func (k *keys) play(seed uint64) {
	rates := faults.Rates{Throttle: .03, Before: .03, After: .08, Conflict: .08}
	plan, gate := faults.NewPlan(k.t, seed, rates, k.store, clock.System{}), faults.NewSteps()
	var wg sync.WaitGroup
	for client := range 4 {
		l := k.launcher(plan.Process(fmt.Sprint("process", client), gate).Table())
		rng := rand.New(rand.NewPCG(seed, uint64(client)))
		wg.Go(func() {
			for range 8 {
				k.ask(client, l, keyCall{fmt.Sprint("key", rng.IntN(keyCount)), fmt.Sprint("request", rng.IntN(requestCount))})
			}
		})
	}
	over := make(chan struct{})
	go func() {
		wg.Wait()
		close(over)
	}()
	gate.Play(rand.New(rand.NewPCG(seed, 99)), synctest.Wait, time.Second, over)
	calm := k.launcher(k.store)
	for key := range keyCount {
		for request := range requestCount {
			k.ask(0, calm, keyCall{fmt.Sprint("key", key), fmt.Sprint("request", request)})
		}
	}
}

func (k *keys) ask(client int, l *launch.Launcher, in keyCall) {
	called := k.tick.Add(1)
	run, err := l.Accept(k.ctx, org, launch.Request{Flow: "f", Version: "1", Trigger: launch.Manual, Key: in.key, Fingerprint: in.request})
	out := keyAnswer{run: run.ID}
	if err != nil {
		out = keyAnswer{refused: errs.CodeOf(err) == errs.Unprocessable}
		out.unknown = !out.refused
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.history = append(k.history, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: k.tick.Add(1)})
}

// check asserts that each key made one run, and each run one audit entry.
func (k *keys) check() {
	answered, stored, audited := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, op := range k.history {
		if out := op.Output.(keyAnswer); !out.refused && !out.unknown {
			answered[out.run] = true
		}
	}
	for item, err := range table.All(k.ctx, k.store, table.Query{Index: table.ByList, PK: org + "#runs##"}) {
		require.NoError(k.t, err)
		stored[item["l1_sk"].Str()] = true
	}
	entries := 0
	for r, err := range audit.Entries(k.ctx, k.store, org, time.Time{}, time.Time{}) {
		require.NoError(k.t, err)
		if r.ResourceType == "run" {
			entries++
			audited[r.ResourceID] = true
		}
	}
	assert.Len(k.t, stored, keyCount, "a key makes one run")
	assert.Equal(k.t, stored, answered)
	assert.Equal(k.t, stored, audited)
	assert.Equal(k.t, keyCount, entries)
}

// TestKeyModelRejectsInvalidHistories checks the model with histories that no
// such register has.
func TestKeyModelRejectsInvalidHistories(t *testing.T) {
	t.Parallel()
	type step struct {
		request string
		out     keyAnswer
	}
	lost, refused := keyAnswer{unknown: true}, keyAnswer{refused: true}
	for name, c := range map[string]struct {
		steps []step
		want  porcupine.CheckResult
	}{
		"a run, its replay, and another request":   {[]step{{"a", keyAnswer{run: "1"}}, {"a", keyAnswer{run: "1"}}, {"b", refused}}, porcupine.Ok},
		"a run whose answer was lost":              {[]step{{"a", lost}, {"b", refused}, {"a", keyAnswer{run: "1"}}, {"a", keyAnswer{run: "1"}}}, porcupine.Ok},
		"a request that was lost":                  {[]step{{"a", lost}, {"b", keyAnswer{run: "1"}}, {"a", refused}}, porcupine.Ok},
		"two runs of one key":                      {[]step{{"a", keyAnswer{run: "1"}}, {"a", keyAnswer{run: "2"}}}, porcupine.Illegal},
		"two runs of one key, one of them unknown": {[]step{{"a", lost}, {"b", refused}, {"a", keyAnswer{run: "1"}}, {"a", keyAnswer{run: "2"}}}, porcupine.Illegal},
		"another request that is taken":            {[]step{{"a", keyAnswer{run: "1"}}, {"b", keyAnswer{run: "1"}}}, porcupine.Illegal},
		"a first request that is refused":          {[]step{{"a", refused}}, porcupine.Illegal},
		"the same request that is refused":         {[]step{{"a", keyAnswer{run: "1"}}, {"a", refused}}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var history []porcupine.Operation
			for i, s := range c.steps {
				history = append(history, porcupine.Operation{Input: keyCall{"k", s.request}, Output: s.out, Call: int64(2 * i), Return: int64(2*i + 1)})
			}
			assert.Equal(t, c.want, porcupine.CheckOperationsTimeout(keyModel, history, time.Second))
		})
	}
}
