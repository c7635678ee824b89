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

// role is the role of the test binary as the attacker.
const role = "attacker"

// orders are the instructions for an attacker.
type orders struct {
	Attack, Result string // Result is the file for its tally
	Full           bool
	Seed           uint64
	Credentials    signin.Credentials // of the server, for attackers who know its secrets
	Owner          string             // a key with full access to the attacker's workspace
	Ours, Theirs   *estate            // nil: the attack needs none
}

// orders creates workspaces for an attack.
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

// send runs an attacker and returns its tally.
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

// attacker is the attacking process.
type attacker struct {
	*orders
	*tally
	api  *client.Client // with full access to its workspace
	ctx  context.Context
	ends context.Context // done when an attack that ends by time is over
}

// play runs the attacker.
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
	a.mu.Lock() // never unlocked: pending results no longer count
	return os.WriteFile(o.Result, marshal(a.tally), 0o600)
}

// newHTTP returns a client with its own connections that does not follow
// redirects.
func newHTTP(patience time.Duration) *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// random returns a generator with the seed, a different one for each number.
func (o *orders) random(number uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, number)) }

// each distributes n jobs among workers. The random numbers of a job do not
// depend on its worker.
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

// forever makes workers repeat do, at least once, until the attack is over.
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

// do sends a request of the attacker's workspace and counts its response,
// unless there is a network error. A server error is a problem.
func (a *attacker) do(ctx context.Context, method, path string, in, out any) error {
	err := a.api.Do(ctx, method, path, in, out)
	a.counted(method+" "+path, err)
	return err
}

// counted counts the response in err.
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

// lost counts a failed connection.
func (a *attacker) lost(err error) {
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		a.answer("no answer")
		return
	}
	a.answer("closed")
}

// token returns a unique name.
func token() string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(ids.Token(12)))
}

// tally is the result of an attack.
type tally struct {
	mu       sync.Mutex
	Sent     int
	Answers  map[string]int // number of each kind of response
	Problems []string       // what must not happen
}

func (t *tally) answer(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Sent++
	t.Answers[what]++
}

// mostProblems is the number of problems that are kept.
const mostProblems = 30

func (t *tally) problem(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.Problems) < mostProblems {
		t.Problems = append(t.Problems, fmt.Sprintf("%.1500s", fmt.Sprintf(format, args...)))
	}
}

// answers returns the counts on one line.
func (t *tally) answers() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(t.Answers)) {
		out = append(out, fmt.Sprintf("%s: %d", name, t.Answers[name]))
	}
	return strings.Join(out, ", ")
}
