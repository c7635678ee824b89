package server

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"millrace/localstack/embedded/pebblequeue"
)

func TestDeadLettersAreLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	tell := tellDead(slog.New(slog.NewTextHandler(&out, nil)))
	d := pebblequeue.DeadLetter{
		Queue: "tasks-nano", Group: "org_a", Sent: time.Unix(0, 0).UTC(), Receives: 10, Kept: true,
		Body: []byte(`{"kind":"task","org_id":"org_a","run_id":"01RUN","node":3}`),
	}
	tell(d)
	assert.Contains(t, out.String(), "level=WARN")
	assert.Contains(t, out.String(), "queue=tasks-nano kind=task org_id=org_a run_id=01RUN deliveries=10 sent=1970-01-01T00:00:00Z in=tasks-nano-dead")
	out.Reset()
	d.Kept, d.Body = false, []byte(`not JSON`)
	tell(d)
	assert.Contains(t, out.String(), "level=ERROR")
	assert.Contains(t, out.String(), "queue=tasks-nano kind=\"\" org_id=org_a")
}
