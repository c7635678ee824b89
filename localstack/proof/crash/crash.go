// Package crash kills a server at random writes, repeatedly over one data
// directory, while clients submit all kinds of work, cancel it, retry it, and
// repeat requests. After each death it checks the store against the invariants
// and against its state at the previous death, and at the end against the
// requests and responses and the expected results of the flows.
package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"millrace/localstack/client"
	"millrace/localstack/proc"
	"millrace/localstack/proof/fsck"
	"millrace/shared/platform/blob"
	"millrace/shared/platform/clock"
	"millrace/shared/run/worker"
)

// Durations of a loop.
const (
	idleLife = 1500 * time.Millisecond // a server that writes too little is killed after this time
	// settling is the time for all runs to end after the last kill. The message of a
	// run that died with ten servers is a dead letter; while others wait in its
	// queue, the run is sent again when it is 15 minutes old.
	settling  = 25 * time.Minute
	drains    = 5                      // servers after that, to empty the queues
	drainLife = 300 * time.Millisecond // of each
)

// Config configures a loop.
type Config struct {
	Binary  string // millrace
	Dir     string // data directory
	Crashes int
	Seed    uint64
	Runs    int // submissions per crash; 0 means 12
	// Objects opens the object store of a data directory without a running server,
	// to check objects at the end; nil skips that.
	Objects func(ctx context.Context, dir string) (blob.Store, error)
	Logf    func(format string, args ...any)
}

// Report is the result of a loop.
type Report struct {
	Tally
	Problems []string
	Crashes  int // kills
	Starting int // of these, before the server was healthy
	Idle     int // of these, of a server that had nothing to write
	Torn     int // kills that left half a record at the end of the log
	Stops    int // orderly stops
	Commits  int // observed before kills
	Items    int // in the store at the end
	Requests map[string]int
	Startup  time.Duration // the longest
	Settled  time.Duration // from the last start until all runs had ended
}

// String formats the report on a few lines.
func (r Report) String() string {
	return fmt.Sprintf("%d kills (%d while starting, %d idle, %d in a write) and %d stops after %d commits; %d items, runs %v, %d lost attempts, %d tasks and %d messages given up; requests %v; longest start %s, settled in %s; %d problems",
		r.Crashes, r.Starting, r.Idle, r.Torn, r.Stops, r.Commits, r.Items, r.Runs, r.Lost, r.GivenUp, r.Dead, r.Requests,
		r.Startup.Round(time.Millisecond), r.Settled.Round(time.Millisecond), len(r.Problems))
}

type loop struct {
	Report
	cfg     Config
	history *History
	rng     *rand.Rand
	log     *bytes.Buffer // of the running server
	last    *fsck.Snapshot
}

// Run runs a loop. Its error is one of the loop itself; problems of the store
// are in the report.
func Run(ctx context.Context, cfg Config) (Report, error) {
	if cfg.Runs == 0 {
		cfg.Runs = 12
	}
	h, err := NewHistory(cfg.Seed)
	if err != nil {
		return Report{}, err
	}
	defer h.Close()
	l := &loop{cfg: cfg, history: h, rng: rand.New(rand.NewPCG(cfg.Seed, 1<<32))}
	err = l.run(ctx)
	return l.Report, err
}

func (l *loop) run(ctx context.Context) error {
	s, err := l.start(ctx, nil)
	if err != nil {
		return err
	}
	if err := l.history.Register(ctx, s.Client()); err != nil {
		s.Kill()
		return err
	}
	if err := s.Stop(); err != nil {
		return err
	}
	driving, stop := context.WithCancel(ctx)
	var clients sync.WaitGroup
	clients.Go(func() { l.history.Drive(driving) })
	defer func() { stop(); clients.Wait() }()
	for l.Crashes < l.cfg.Crashes && ctx.Err() == nil && len(l.Problems) == 0 {
		if err := l.life(ctx); err != nil {
			return err
		}
	}
	stop()
	clients.Wait()
	if len(l.Problems) > 0 {
		return nil
	}
	return l.end(ctx)
}

// spawn starts a server.
func (l *loop) spawn() (*proc.Server, error) {
	l.log = &bytes.Buffer{}
	return proc.StartServer(l.cfg.Binary, l.cfg.Dir, l.log, "--allow-loopback", "--python-slots", "4")
}

// start waits for a server, starting one if s is nil.
func (l *loop) start(ctx context.Context, s *proc.Server) (*proc.Server, error) {
	if s == nil {
		var err error
		if s, err = l.spawn(); err != nil {
			return nil, err
		}
	}
	if err := s.AwaitHealthy(ctx); err != nil {
		return nil, err
	}
	l.Startup = max(l.Startup, s.Startup)
	return s, nil
}

// life runs one server from its start to its death.
func (l *loop) life(ctx context.Context) error {
	l.history.Allow(l.cfg.Runs)
	wire := newTripwire(l.cfg.Dir)
	defer wire.close()
	s, err := l.spawn()
	if err != nil {
		return err
	}
	switch draw := l.rng.IntN(20); {
	case draw < 4:
		err = l.startAndDie(ctx, s, wire)
	case draw < 5:
		err = l.workAndStop(ctx, s)
	default:
		err = l.workAndDie(ctx, s, wire)
	}
	l.history.Serve(nil)
	if err != nil {
		s.Kill()
		return err
	}
	l.complain()
	return l.check(ctx)
}

// startAndDie kills a server during or soon after its start.
func (l *loop) startAndDie(ctx context.Context, s *proc.Server, wire *tripwire) error {
	healthy := make(chan error, 1)
	// Not only for idleLife, after which AwaitHealthy itself would kill the
	// server.
	go func() { healthy <- s.AwaitHealthy(ctx) }()
	bounded, cancel := context.WithTimeout(ctx, idleLife)
	defer cancel()
	wire.wait(bounded, l.rng.IntN(40))
	if err := l.kill(s, wire); err != nil {
		return err
	}
	if <-healthy != nil {
		l.Starting++
	}
	return nil
}

// workAndDie kills a working server.
func (l *loop) workAndDie(ctx context.Context, s *proc.Server, wire *tripwire) error {
	if _, err := l.start(ctx, s); err != nil {
		return err
	}
	l.history.Serve(s.Client())
	ctx, cancel := context.WithTimeout(ctx, idleLife)
	defer cancel()
	wire.wait(ctx, 1)
	wire.wait(ctx, wire.seen+1+l.rng.IntN(120))
	if ctx.Err() != nil {
		l.Idle++
	}
	return l.kill(s, wire)
}

// workAndStop stops a server in an orderly way.
func (l *loop) workAndStop(ctx context.Context, s *proc.Server) error {
	if _, err := l.start(ctx, s); err != nil {
		return err
	}
	l.history.Serve(s.Client())
	_ = clock.Sleep(ctx, time.Duration(l.rng.Int64N(int64(500*time.Millisecond))))
	l.Stops++
	return s.Stop()
}

// kill kills a server some microseconds later: within the next commit, or
// between two.
func (l *loop) kill(s *proc.Server, wire *tripwire) error {
	for until := time.Now().Add(time.Duration(l.rng.Int64N(int64(150 * time.Microsecond)))); time.Now().Before(until); {
		continue
	}
	select {
	case <-s.Exited():
		return fmt.Errorf("the server ended by itself: %s", s.Ending())
	default:
	}
	l.Crashes++
	l.Commits += wire.seen
	s.Kill()
	if l.rng.IntN(4) > 0 {
		return nil
	}
	body := make([]byte, l.rng.IntN(200))
	for i := range body {
		body[i] = byte(l.rng.Uint32())
	}
	torn, err := wire.tear(body)
	if torn {
		l.Torn++
	}
	return err
}

// complain records errors in the server's log as problems.
func (l *loop) complain() {
	for line := range strings.Lines(l.log.String()) {
		if strings.Contains(line, "panic") || strings.Contains(line, "level=ERROR") {
			l.tell("life %d: the server wrote: %s", l.Crashes+l.Stops, strings.TrimSpace(line))
		}
	}
}

func (l *loop) tell(format string, args ...any) {
	l.Problems = append(l.Problems, fmt.Sprintf(format, args...))
}

// check checks the store that a server left against the invariants and its
// earlier state.
func (l *loop) check(ctx context.Context) error {
	now, err := l.read(ctx, nil)
	if err != nil {
		return err
	}
	found := now.Check(ctx)
	if l.last != nil {
		found = append(found, fsck.Changes(l.last, now)...)
	}
	for _, p := range found {
		l.tell("after life %d: %s", l.Crashes+l.Stops, p)
	}
	l.last = now
	if n := l.Crashes; n%20 == 0 && l.cfg.Logf != nil {
		l.cfg.Logf("%d kills, %d items, %d runs", n, now.Len(), len(now.Runs()))
	}
	return nil
}

// end waits for all runs to end, and checks everything.
func (l *loop) end(ctx context.Context) error {
	begun := time.Now()
	if err := l.serve(ctx, func(ctx context.Context, api *client.Client) error {
		defer func() { l.Settled = time.Since(begun) }()
		return l.history.Settle(ctx, api)
	}); err != nil {
		return err
	}
	if err := l.drain(ctx); err != nil {
		return err
	}
	var objects blob.Store
	if l.cfg.Objects != nil {
		var err error
		if objects, err = l.cfg.Objects(ctx, l.cfg.Dir); err != nil {
			return err
		}
	}
	now, err := l.read(ctx, objects)
	if err != nil {
		return err
	}
	l.Problems = append(l.Problems, now.Check(ctx)...)
	l.Problems = append(l.Problems, now.CheckIdle(ctx)...)
	l.Problems = append(l.Problems, fsck.Changes(l.last, now)...)
	l.Problems = append(l.Problems, l.history.Judge(now)...)
	l.count(now)
	return nil
}

// drain starts servers until one leaves its queues idle. A duplicate message
// that was in flight is delivered to the next server at once, which finds its
// run ended; a stopped server may not have received all of them yet.
func (l *loop) drain(ctx context.Context) error {
	for range drains {
		now, err := l.read(ctx, nil)
		if err != nil || len(now.CheckQueues()) == 0 {
			return err
		}
		if err := l.serve(ctx, func(ctx context.Context, api *client.Client) error {
			_ = clock.Sleep(ctx, drainLife)
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// serve runs a server while do runs, whose error is a problem.
func (l *loop) serve(ctx context.Context, do func(context.Context, *client.Client) error) error {
	s, err := l.start(ctx, nil)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	if err := do(bounded, s.Client()); err != nil {
		l.tell("%v", err)
	}
	if err := s.Stop(); err != nil {
		return err
	}
	l.complain()
	return nil
}

func (l *loop) read(ctx context.Context, objects blob.Store) (*fsck.Snapshot, error) {
	return fsck.Read(ctx, l.cfg.Dir, objects)
}

func (l *loop) count(s *fsck.Snapshot) {
	l.Items, l.Requests = s.Len(), l.history.counts
	l.Tally = Count(s)
}

// Tally counts the final content of a store.
type Tally struct {
	Runs    map[string]int // by status
	Lost    int            // attempts that died with their server
	GivenUp int            // tasks that failed after ten lost attempts
	Dead    int            // messages given up after ten deaths
}

// Count returns a tally.
func Count(s *fsck.Snapshot) Tally {
	t := Tally{Runs: map[string]int{}}
	for _, m := range s.Messages {
		if m.Dead() {
			t.Dead++
		}
	}
	for _, run := range s.Runs() {
		t.Runs[string(run.Status)]++
		for _, item := range run.Nodes {
			t.Lost += item.Lost
			if item.Lost >= worker.MaxLost {
				t.GivenUp++
			}
		}
	}
	return t
}
