package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"millrace/events"
	"millrace/localstack/proof/faults"
	"millrace/shared/platform/queue"
)

// simTrace keeps the last events of a history, for the reader of a failure.
type simTrace struct {
	began time.Time
	last  [120]struct {
		at   time.Time
		what string
		of   faults.Request
	}
	n int
}

func (t *simTrace) add(at time.Time, what string, of faults.Request) {
	if t.n == 0 {
		t.began = at
	}
	e := &t.last[t.n%len(t.last)]
	e.at, e.what, e.of = at, what, of
	t.n++
}

func (t *simTrace) note(at time.Time, what string) { t.add(at, what, faults.Request{}) }

// String returns a line for each event.
func (t *simTrace) String() string {
	var b strings.Builder
	for i := max(0, t.n-len(t.last)); i < t.n; i++ {
		e := &t.last[i%len(t.last)]
		fmt.Fprintf(&b, "%12.3fs %s", e.at.Sub(t.began).Seconds(), e.what)
		if e.of.Process != "" {
			fmt.Fprintf(&b, " %s %s %s %s", e.of.Process, e.of.Port, e.of.Operation, e.of.Subject)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// simQueues counts the messages about the nodes of runs that are sent.
type simQueues struct {
	queue.Queues
	mu    sync.Mutex
	nodes map[string]int // by run
	// untyped means that messages do not have the types of tasks.
	untyped bool
}

// Send counts messages as it sends them.
func (c *simQueues) Send(ctx context.Context, name string, msgs ...queue.Message) error {
	c.mu.Lock()
	for i, m := range msgs {
		var run events.Run
		if json.Unmarshal(m.Body, &run) == nil && run.Kind == events.RunTask {
			c.nodes[run.Run]++
			if c.untyped {
				run.Type = ""
				msgs[i].Body, _ = json.Marshal(run)
			}
		}
	}
	c.mu.Unlock()
	return c.Queues.Send(ctx, name, msgs...)
}
