package attack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/embedded/signin"
	"millrace/localstack/proc/proctest"
	"millrace/shared/platform/ids"
)

// role is what the test binary plays as the attacker.
const role = "attacker"

// orders are what an attacker is told.
type orders struct {
	Attack, Result string // Result: the file for its tally
	Full           bool
	Seed           uint64
	Credentials    signin.Credentials // of the server, for attacks by those who have its secrets
	Owner          string             // a key with full access to the workspace the attacker is in
	Ours, Theirs   *estate            // nil: the attack needs none
}

// orders makes workspaces for an attack.
func (s *service) orders(t *testing.T, a *attack) *orders {
	t.Helper()
	o := &orders{Attack: a.name, Full: *full, Seed: *seed, Credentials: s.Credentials, Result: filepath.Join(t.TempDir(), "tally")}
	if !a.estates {
		o.Owner = s.workspace(t, a.name+"@example.com").Token
		return o
	}
	o.Ours, o.Theirs = s.settle(t, a.name+"-ours"), s.settle(t, a.name+"-theirs")
	o.Owner = o.Ours.Owner
	return o
}

// send has an attacker do its worst, and returns what came of it.
func (o *orders) send(t *testing.T) *tally {
	t.Helper()
	child := proctest.Start(t, role, string(marshal(o)))
	select {
	case <-child.Exited():
	case <-time.After(2 * time.Minute):
		child.Kill()
		return &tally{Problems: []string{"the attacker did not end: the server holds it"}}
	}
	data, err := os.ReadFile(o.Result)
	require.NoError(t, err, "the attacker: %s", child.Ending())
	got := &tally{}
	require.NoError(t, json.Unmarshal(data, got))
	return got
}

// attacker is the process that attacks.
type attacker struct {
	*orders
	*tally
	api  *client.Client // full access to its workspace
	ctx  context.Context
	ends context.Context // when an attack that goes by time is over
}

// play is the role of the attacker.
func play(argument string) error {
	if err := lowerPriority(); err != nil {
		return err
	}
	o := &orders{}
	if err := json.Unmarshal([]byte(argument), o); err != nil {
		return err
	}
	i := slices.IndexFunc(attacks, func(a attack) bool { return a.name == o.Attack })
	if i < 0 {
		return fmt.Errorf("no attack %q", o.Attack)
	}
	span := partSpan
	*full = o.Full
	if o.Full {
		span = cmp.Or(attacks[i].span, time.Minute)
	}
	a := &attacker{orders: o, tally: &tally{Answers: map[string]int{}}, ctx: context.Background()}
	a.api = &client.Client{BaseURL: o.Credentials.BaseURL, Token: o.Owner, HTTP: newHTTP(0)}
	var stop context.CancelFunc
	a.ends, stop = context.WithTimeout(a.ctx, span)
	defer stop()
	attacks[i].run(a)
	a.mu.Lock() // for good: what is under way counts no more
	return os.WriteFile(o.Result, marshal(a.tally), 0o600)
}

// newHTTP is a client over connections of its own that follows no redirects.
func newHTTP(patience time.Duration) *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// random draws from the seed, apart for each number.
func (o *orders) random(number uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, number)) }

// each shares n jobs out among workers; what a job draws does not depend on which
// of them has it.
func (a *attacker) each(workers, n int, job func(rng *rand.Rand, i int)) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < n; i += workers {
				job(a.random(uint64(i)), i)
			}
		})
	}
	all.Wait()
}

// forever has workers do something, at least once, until the attack is over.
func (a *attacker) forever(workers int, do func(i int)) {
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i == w || a.ends.Err() == nil; i += workers {
				do(i)
			}
		})
	}
	all.Wait()
}

// do sends a request of the attacker's workspace and counts its answer, unless it
// is an error of the network. A fault of the server is a problem.
func (a *attacker) do(ctx context.Context, method, path string, in, out any) error {
	err := a.api.Do(ctx, method, path, in, out)
	a.counted(method+" "+path, err)
	return err
}

// counted counts the answer that err tells of.
func (a *attacker) counted(what string, err error) {
	refused, isAnswer := errors.AsType[*client.Error](err)
	switch {
	case err == nil:
		a.answer("2xx")
	case isAnswer:
		a.answer(fmt.Sprint(refused.Status))
		if refused.Status >= 500 && refused.Status != http.StatusServiceUnavailable {
			a.problem("%s: %v", what, err)
		}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		a.answer("left")
	default:
		a.lost(err)
	}
}

// lost counts a connection that came to nothing.
func (a *attacker) lost(err error) {
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		a.answer("no answer")
		return
	}
	a.answer("closed")
}

// token is a name that nobody else has.
func token() string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(ids.Token(12)))
}

// tally is what came of an attack.
type tally struct {
	mu       sync.Mutex
	Sent     int
	Answers  map[string]int // how often what came back
	Problems []string       // what must not be
}

func (t *tally) answer(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Sent++
	t.Answers[what]++
}

// mostProblems is how many problems are kept.
const mostProblems = 30

func (t *tally) problem(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.Problems) < mostProblems {
		t.Problems = append(t.Problems, fmt.Sprintf("%.1500s", fmt.Sprintf(format, args...)))
	}
}

// answers are the counts on one line.
func (t *tally) answers() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.Answers)) {
		out = append(out, fmt.Sprintf("%s: %d", name, t.Answers[name]))
	}
	return strings.Join(out, ", ")
}
