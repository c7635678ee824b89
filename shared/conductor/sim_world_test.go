package conductor_test

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	lambda "github.com/aws/aws-lambda-go/events"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"millrace/events"
	"millrace/functions/schedulertick"
	"millrace/localstack/embedded/localbus"
	"millrace/localstack/embedded/pebblequeue"
	"millrace/localstack/embedded/pebbletable"
	"millrace/localstack/embedded/store"
	"millrace/localstack/proof/faults"
	"millrace/localstack/proof/fixture"
	"millrace/localstack/proof/memory"
	"millrace/shared/blob/blobtest"
	"millrace/shared/clock"
	"millrace/shared/conductor"
	"millrace/shared/engine"
	"millrace/shared/executor"
	"millrace/shared/fn"
	"millrace/shared/launch"
	"millrace/shared/queue"
	"millrace/shared/registry"
	"millrace/shared/runlog"
	"millrace/shared/signal"
)

// sim plays one history in a bubble.
type sim struct {
	simHistory
	t      *testing.T // of the bubble
	ctx    context.Context
	fs     *vfs.MemFS
	rng    *rand.Rand
	store  *watched
	queues *pebblequeue.Queues
	blob   *blobtest.Memory
	plan   *faults.Plan
	gate   *faults.Steps
	procs  []*proc
	boots  int
	steps  int
	trace  hash.Hash64   // of every request in its order
	took   time.Duration // the longest run

	mu       sync.Mutex
	problems []string
	executed map[string]int
	accepted map[int]string // run ids that were answered, by generation
	stopped  map[string]bool
	busy     int // clients' requests under way
}

// proc is one process with its view of the world.
type proc struct {
	*faults.Process
	name   string
	ctx    context.Context
	end    context.CancelFunc
	c      *conductor.Conductor
	launch *launch.Launcher
	tick   fn.Handler
	queues queue.Queues
	paused time.Time // until
	slots  atomic.Int32
}

// workers is how many messages a process handles at a time.
const workers = 16

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

func newSim(t *testing.T, h simHistory) *sim {
	s := &sim{
		simHistory: h, rng: rand.New(rand.NewPCG(h.seed, 1)), blob: &blobtest.Memory{}, gate: faults.NewSteps(), trace: fnv.New64a(),
		executed: map[string]int{}, accepted: map[int]string{}, stopped: map[string]bool{},
	}
	s.ctx = fixture.Owner(t.Context(), org)
	s.store = &watched{tell: s.tell}
	fs := vfs.NewMem()
	if h.power {
		fs = vfs.NewCrashableMem()
	}
	s.open(t, fs)
	s.plan = faults.NewPlan(t, h.seed, h.rates, s.store, clock.System{})
	s.register()
	for range h.processes {
		s.procs = append(s.procs, s.start())
	}
	if h.crashes > 0 {
		s.crashLater(s.procs[0])
	}
	return s
}

// open opens the store that a file system has.
func (s *sim) open(t *testing.T, fs *vfs.MemFS) {
	s.t, s.fs = t, fs
	db, err := store.Open("store", store.Options{FS: fs, FullSync: s.power, Simulated: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	s.store.Table = pebbletable.New(db, clock.System{})
	s.queues = memory.QueuesIn(t, db, clock.System{}, fixture.Queues(2*time.Minute))
}

// cutPower goes on with what a power cut leaves: what was synced, and some of the
// rest.
func (s *sim) cutPower() {
	s.open(s.t, s.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: s.rng.IntN(101), RNG: s.rng}))
}

func (s *sim) register() {
	if err := fixture.Register(s.ctx, s.store, s.blob, "f", s.flow.spec()); err != nil {
		panic(err) // a mistake of the test
	}
	v, err := registry.GetVersion(s.ctx, s.store, org, "f", "1")
	if err != nil {
		panic(err)
	}
	// Flows are cached over all histories; from now on this one is.
	flow, err := registry.LoadFlow(s.ctx, s.store, s.blob, org, v.SpecHash)
	if err != nil {
		panic(err)
	}
	s.store.plan = engine.NewPlan(engine.Defs(flow))
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// start begins a process of a name of its own.
func (s *sim) start() *proc {
	s.boots++
	p := &proc{name: "boot" + itoa(s.boots)}
	p.Process = s.plan.Process(p.name, s.gate)
	p.ctx, p.end = context.WithCancel(s.ctx)
	p.queues = p.Queues(s.queues)
	hub := &signal.Hub{}
	logs := &runlog.Store{Table: s.store, Blob: s.blob, Clock: clock.System{}, Log: quiet}
	p.c = conductor.New(conductor.Config{
		Table: p.Table(), Queues: p.queues, Blob: s.blob, Bus: localbus.New(p.queues, nil), Clock: clock.System{},
		Log: quiet, Logs: logs, Hub: hub, Boot: p.name, Sole: s.sole, Resident: !s.lambda,
		Executors: executor.Set{
			"python": simulated{s, p, nil}, "wait": simulated{s, p, executor.Wait{Now: clock.System{}.Now}},
		},
	})
	p.launch = &launch.Launcher{Table: p.Table(), Queues: p.queues, Blob: s.blob, Clock: clock.System{}, Log: quiet, Hub: hub}
	p.tick = schedulertick.Spec.Handle(fn.Deps{Table: p.Table(), Queues: p.queues, Clock: clock.System{}, Log: quiet})
	return p
}

func (s *sim) crashLater(p *proc) {
	s.crashes--
	p.CrashAt(1+s.rng.IntN(60), s.rng.IntN(2) == 0)
}

func (p *proc) dead() bool {
	select {
	case <-p.Died():
		return true
	default:
		return false
	}
}

// bury replaces dead processes. As at a start of the embedded server, one that
// is alone looks at every run.
func (s *sim) bury() {
	for i, p := range s.procs {
		if !p.dead() || p.ctx.Err() != nil {
			continue
		}
		p.end()
		if s.power {
			s.cutPower()
		}
		next := s.start()
		s.mu.Lock()
		s.procs[i] = next
		s.mu.Unlock()
		if s.crashes > 0 {
			s.crashLater(next)
		}
		if s.sole {
			for _, id := range s.ids() {
				go func() { _ = next.c.Look(next.ctx, org, id) }()
				synctest.Wait()
			}
		}
	}
}

// ids are the runs there are.
func (s *sim) ids() []string {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return slices.Clone(s.store.runs)
}

// may says whose requests may go on.
func (s *sim) may(name string) bool {
	for _, p := range s.procs {
		if p.name == name {
			return !time.Now().Before(p.paused)
		}
	}
	return true // a dead one's, which fail
}

// alive draws a process that may go on; nil if there is none.
func (s *sim) alive() *proc {
	p := s.procs[s.rng.IntN(len(s.procs))]
	if p.dead() || time.Now().Before(p.paused) {
		return nil
	}
	return p
}

// receive takes messages from a queue for a process and begins to handle them;
// false if there are none.
func (s *sim) receive() bool {
	p := s.alive()
	if p == nil || p.slots.Load() >= workers {
		return false
	}
	names := []string{events.Tasks("nano"), events.Runs}
	first := s.rng.IntN(2)
	for _, name := range []string{names[first], names[1-first]} {
		got, err := s.queues.Receive(s.ctx, name, 1+s.rng.IntN(3), 0)
		if err != nil || len(got) == 0 {
			continue
		}
		for _, m := range got {
			p.slots.Add(1)
			go s.handle(p, name, m)
			synctest.Wait() // one after the other, so that chance has no part in their order
		}
		return true
	}
	return false
}

func (s *sim) handle(p *proc, name string, m queue.Delivery) {
	defer p.slots.Add(-1)
	ctx := p.ctx
	if s.lambda {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, 15*time.Minute)
		defer cancel()
	}
	out, err := p.c.Messages(ctx, lambda.SQSEvent{Records: []lambda.SQSMessage{{
		MessageId: m.ID, ReceiptHandle: m.Receipt, Body: string(m.Body), EventSourceARN: "arn:aws:sqs:x:0:" + name,
		Attributes: map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)},
	}}})
	if err == nil && len(out.BatchItemFailures) == 0 {
		_ = p.queues.Delete(ctx, name, m.Receipt)
	}
}

// client makes requests of a process until one is answered; after each that is
// not, another process is asked.
func (s *sim) client(do func(p *proc) error) {
	s.mu.Lock()
	s.busy++
	s.mu.Unlock()
	go func() {
		defer func() {
			s.mu.Lock()
			s.busy--
			s.mu.Unlock()
		}()
		for n := 0; s.ctx.Err() == nil; n++ {
			s.mu.Lock()
			p := s.procs[n%len(s.procs)]
			s.mu.Unlock()
			if do(p) == nil {
				return
			}
			time.Sleep(time.Second)
		}
	}()
}
