// Package attack attacks a server from outside, as hostile tenants and
// strangers would: with random requests to all listeners, and with work that is
// meant to be expensive. Meanwhile another workspace continues its requests and
// runs. The tests measure its waiting times, with and without the attack, and
// the server's memory. With -full they use the sizes for which the limits are
// guaranteed; a normal test run uses smaller ones and checks only what does not
// depend on how busy the machine is.
//
// The attacker is a separate process with a lower priority than the server, in
// order to measure the server's fairness and not the machine's size.
package attack

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	_ "millrace/localstack/embedded/server" // the binary is built from it
	"millrace/localstack/proc/proctest"
)

var (
	full = flag.Bool("full", false, "the whole of each attack, held to the limits of time")
	seed = flag.Uint64("seed", 1, "what random requests are drawn from")
)

// Limits during an attack.
const (
	mostRequest = 100 * time.Millisecond // p95 of the other workspace's requests
	mostRun     = time.Second            // p95 of its runs with one task
	mostMemory  = 600 << 20              // resident memory of the server without Python tasks
)

// binary is millrace, built once.
var binary string

func TestMain(m *testing.M) {
	proctest.Play(map[string]func(string) error{role: play})
	flag.Parse()
	os.Exit(proctest.Main(m, map[string]*string{proctest.Local: &binary}))
}

// attack is one kind of attack.
type attack struct {
	name, sent string        // sent describes the requests in the report
	span       time.Duration // duration of a full attack that ends by time; a partial one takes partSpan
	estates    bool          // it needs workspaces with content
	restart    bool          // the server must recover from a kill during the attack
	run        func(*attacker)
}

const partSpan = 300 * time.Millisecond

var attacks = []attack{
	{name: "api", sent: "random requests to all operations", estates: true, run: fuzzAPI},
	{name: "raw", sent: "malformed HTTP requests", estates: true, run: fuzzRaw},
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

// TestAttacks attacks a server, with -full a new one for each attack.
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

// row returns an attack's line in the report.
func (r *result) row(a *attack) []string {
	cells := []string{a.name, a.sent, fmt.Sprint(r.Sent), r.answers(), r.took.Round(100 * time.Millisecond).String(), fmt.Sprint(r.memory >> 20)}
	for i, under := range r.under.all() {
		cells = append(cells, r.alone.all()[i].String()+" > "+under.String())
	}
	return cells
}

// table formats rows.
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
