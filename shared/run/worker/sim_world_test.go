package worker_test

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/platform/blob/blobtest"
	"millrace/shared/platform/clock"
	"millrace/shared/run/engine"
	"millrace/shared/run/registry"
)

// sim plays one history in a bubble.
type sim struct {
	simHistory
	t       *testing.T // of the bubble
	ctx     context.Context
	end     context.CancelFunc
	fs      *vfs.MemFS
	db      *store.DB
	rng     *rand.Rand
	store   *watched
	queues  *pebblequeue.Queues
	sent    *simQueues
	blob    *blobtest.Memory
	plan    *faults.Plan
	gate    *faults.Steps
	procs   []*proc
	named   map[string]*proc // all processes so far
	boots   int
	steps   int
	handled int         // batches of messages
	trace   hash.Hash64 // of every request, in order
	told    simTrace    // the last events
	took    time.Duration
	began   time.Time // of the current generation
	removed bool      // the objects of the runs
	// disturbed means that anything may fail in this history.
	disturbed bool

	mu        sync.Mutex
	problems  []string
	executed  map[string]int
	tries     map[simNode]int        // how often a node's attempts began
	deferred  map[string]int         // by run: how often an executor could not begin
	under     map[simNode]*execution // the last execution of a node
	lines     map[string][]simLine   // by attempt
	views     map[string]simView     // of the runs that are over
	lineages  []*lineage
	stopped   map[string]bool
	busy      int // clients' current requests
	lastFault time.Time
}

// simNode identifies a node of a run.
type simNode struct {
	run  string
	node engine.Node
}

// lineage is a run and its retries.
type lineage struct {
	org, key string
	accepted string // the id in the response
}

func (s *sim) tell(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) < 10 {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

func (s *sim) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.problems) > 0
}

func (s *sim) lastFaultAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lastFault
}

func newSim(t *testing.T, h simHistory) *sim {
	if h.slots == 0 {
		h.slots = 16
	}
	if len(h.orgs) == 0 {
		h.orgs = []string{org}
	}
	s := &sim{
		simHistory: h, disturbed: h.faulty(), rng: rand.New(rand.NewPCG(h.seed, 1)), blob: &blobtest.Memory{}, gate: faults.NewSteps(), trace: fnv.New64a(),
		executed: map[string]int{}, tries: map[simNode]int{}, deferred: map[string]int{}, under: map[simNode]*execution{}, lines: map[string][]simLine{},
		views: map[string]simView{}, stopped: map[string]bool{}, named: map[string]*proc{},
	}
	for i, org := range h.orgs {
		s.lineages = append(s.lineages, &lineage{org: org, key: fmt.Sprint("key", i)})
	}
	ctx, end := context.WithCancel(t.Context())
	s.ctx, s.end = fixture.Owner(ctx, org), end
	s.store = newWatched(s)
	fs := vfs.NewMem()
	if h.power {
		fs = vfs.NewCrashableMem()
	}
	s.open(t, fs)
	s.plan = faults.NewPlan(t, h.seed, h.rates, s.store, clock.System{})
	s.plan.Tell(s.failing)
	s.register()
	for range h.processes {
		s.procs = append(s.procs, s.start())
	}
	if h.crashes > 0 {
		s.crashLater(s.procs[0])
	}
	return s
}

// asked records a request that is executed, for the reader of a failure.
func (s *sim) asked(r faults.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.named[r.Process]
	if p != nil && !p.dead() && r.Port == faults.Logs && r.Operation == "Put" {
		p.puts[r.Subject] = time.Now()
	}
	if p != nil && !p.dead() && !strings.HasPrefix(r.Subject, "due#") {
		s.told.add(time.Now(), "request", r)
	}
}

// failing records a request that is made to fail.
func (s *sim) failing(r faults.Request, fault string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFault = now
	s.told.add(now, fault, r)
	p := s.named[r.Process]
	switch r.Port {
	case faults.Tables:
		p.failures = append(p.failures, failure{now, r, fault == "hang"})
	case faults.Logs, faults.Objects:
		p.logFailed = true
	}
}

// open opens the store in a file system.
func (s *sim) open(t *testing.T, fs *vfs.MemFS) {
	s.t, s.fs = t, fs
	db, err := store.Open("store", store.Options{FS: fs, FullSync: s.power, Simulated: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s.db = db
	s.store.Table = pebbletable.New(db, clock.System{})
	s.openQueues()
}

// openQueues opens the queues like a starting server: messages in flight are
// visible again.
func (s *sim) openQueues() {
	if s.queues != nil {
		_ = s.queues.Close()
	}
	s.queues = memory.QueuesIn(s.t, s.db, clock.System{}, fixture.Queues(visibility))
	if s.sent == nil {
		s.sent = &simQueues{nodes: map[string]int{}}
	}
	s.sent = &simQueues{Queues: s.queues, nodes: s.sent.nodes, untyped: s.untyped}
}

// cutPower continues with what a power cut leaves: what was synced, and some of
// the rest.
func (s *sim) cutPower() {
	s.open(s.t, s.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: s.rng.IntN(101), RNG: s.rng}))
}

func (s *sim) register() {
	seen := map[string]bool{}
	for _, l := range s.lineages {
		if seen[l.org] {
			continue
		}
		seen[l.org] = true
		if err := fixture.Register(fixture.Owner(s.ctx, l.org), s.store, s.blob, "f", s.flow.spec()); err != nil {
			panic(err) // an error of the test
		}
	}
	v, err := registry.GetVersion(s.ctx, s.store, s.orgs[0], "f", "1")
	if err != nil {
		panic(err)
	}
	// Flows are cached for all histories; from now on this one is cached.
	flow, err := registry.LoadFlow(s.ctx, s.store, s.blob, s.orgs[0], v.SpecHash)
	if err != nil {
		panic(err)
	}
	s.store.plan = engine.NewPlan(engine.Defs(flow))
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
