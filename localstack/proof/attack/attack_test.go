// Package attack attacks a server from outside, as hostile tenants and strangers
// would: random requests to all that listens, and work that is made to cost much.
// Beside it another workspace goes on with its requests and runs. What it waits,
// with and without the attack, and the memory that the server takes, are measured;
// -full takes the sizes at which they are held to what is promised, a test run a
// part of each, held to what does not depend on how busy the machine is.
//
// The attacker is a process of its own, with lower priority than the server: what
// is measured is the server's fairness, not the machine's size.
package attack

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	_ "millrace/localstack/embedded/server" // what the binary is made of
	"millrace/localstack/proc/proctest"
)

var (
	full = flag.Bool("full", false, "the whole of each attack, held to the limits of time")
	seed = flag.Uint64("seed", 1, "what random requests are drawn from")
)

// What the server is held to beside an attack.
const (
	mostRequest = 100 * time.Millisecond // p95 of another workspace's requests
	mostRun     = time.Second            // p95 of its runs of one task
	mostMemory  = 600 << 20              // resident memory of the server, Python tasks apart
)

// binary is millrace-local, built once.
var binary string

func TestMain(m *testing.M) {
	proctest.Play(map[string]func(string) error{role: play})
	flag.Parse()
	os.Exit(proctest.Main(m, map[string]*string{proctest.Local: &binary}))
}

// attack is one way to harm the service.
type attack struct {
	name, sent string        // sent: what, for the report
	span       time.Duration // how long a whole one goes on that ends by time; a part lasts partSpan
	estates    bool          // it needs workspaces with something in them
	restart    bool          // a server that is killed in the midst of it has to get over it
	run        func(*attacker)
}

const partSpan = 300 * time.Millisecond

var attacks = []attack{
	{name: "api", sent: "random requests to all operations", estates: true, run: fuzzAPI},
	{name: "raw", sent: "requests that are no HTTP", estates: true, run: fuzzRaw},
	{name: "expressions", sent: "random expressions and templates, registered and run", run: fuzzExpressions},
	{name: "objects", sent: "random requests to the object store", estates: true, run: fuzzObjects},
	{name: "invoke", sent: "random calls and events of all functions", estates: true, run: fuzzInvoke},
	{name: "local", sent: "the server's own routes without the secret", estates: true, run: fuzzLocal},
	{name: "schemas", sent: "schemas that cost more than they are long", span: 8 * time.Second, run: schemaBombs},
	{name: "patterns", sent: "patterns of 20,000 alternatives", span: 8 * time.Second, run: patternBombs},
	{name: "macros", sent: "flows of thousands of nested macros", span: 8 * time.Second, run: macroBombs},
	{name: "outputs", sent: "40 readers of an output of 15.6 MB of {}", span: 10 * time.Second, restart: true, run: largeOutputs},
	{name: "answers", sent: "20 http tasks that are answered 31 MB of {}", span: 10 * time.Second, run: largeAnswers},
	{name: "slow-bodies", sent: "bodies of 4 MB, a byte a second, both listeners", span: 8 * time.Second, estates: true, run: slowBodies},
	{name: "half-open", sent: "requests without an end, both listeners", span: 8 * time.Second, estates: true, run: halfOpen},
	{name: "never-reading", sent: "clients that read no answer", span: 8 * time.Second, run: neverReading},
	{name: "bombs", sent: "Python tasks that fork and take memory", span: 12 * time.Second, run: pythonBombs},
	{name: "slow-http", sent: "200 http tasks that nobody answers", span: 10 * time.Second, run: slowHTTP},
	{name: "sleepers", sent: "64 Python tasks that sleep", span: 10 * time.Second, run: sleepers},
	{name: "flood", sent: "runs of 1,000 tasks that do not end, until 429", span: 30 * time.Second, restart: true, run: flood},
	{name: "wide", sent: "mapped tasks of 10,000", span: 15 * time.Second, restart: true, run: wideFlood},
	{name: "directories", sent: "zips of a million empty files", span: 8 * time.Second, run: directories},
	{name: "uploads", sent: "more bytes than declared, uploads never completed", span: 8 * time.Second, run: uploads},
}

// TestAttacks attacks a server, each time a new one if it is done in full.
func TestAttacks(t *testing.T) {
	rows := [][]string{heading}
	var shared *service
	if !*full {
		shared = start(t)
	}
	for i := range attacks {
		a := &attacks[i]
		t.Run(a.name, func(t *testing.T) {
			s := shared
			if *full {
				s = start(t)
			}
			r := s.suffer(t, a)
			rows = append(rows, r.row(a))
			assert.Empty(t, r.Problems)
			assert.Positive(t, r.Sent, "something is sent")
			assert.Less(t, r.memory, int64(mostMemory))
			assert.Empty(t, s.faults(a))
			if !*full {
				return
			}
			for name, under := range r.under.limited() {
				assert.Less(t, under.p95, under.most, "p95 of %s", name)
				assert.NotZero(t, under.count, name)
			}
		})
	}
	t.Logf("seed %d; times are p50/p95/p99 in ms of another workspace, without the attack > beside it\n%s", *seed, table(rows))
}

// heading is the first line of the report.
var heading = []string{"attack", "what was sent", "n", "what came back", "took", "peak MB", "requests", "runs", "Python runs"}

// row is the line of an attack in the report.
func (r *result) row(a *attack) []string {
	cells := []string{a.name, a.sent, fmt.Sprint(r.Sent), r.answers(), r.took.Round(100 * time.Millisecond).String(), fmt.Sprint(r.memory >> 20)}
	for i, under := range r.under.all() {
		cells = append(cells, r.alone.all()[i].String()+" > "+under.String())
	}
	return cells
}

// table lays rows out.
func table(rows [][]string) string {
	widths := make([]int, len(heading))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&b, "%-*s  ", widths[i], cell)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
