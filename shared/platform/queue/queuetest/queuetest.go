// Package queuetest is the conformance suite of package queue. Every driver
// passes it with its own factory; a test against an emulator that falls short
// lists each [Gap]. The suite takes a second or two of real time and expects no
// more than SQS guarantees: delivery at least once, in no particular order, and
// counts that become right eventually.
package queuetest

import (
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"millrace/shared/platform/queue"
)

// NewQueues creates empty queues as defined, with their dead-letter queues.
// Nothing else uses them until the end of the test.
type NewQueues func(t *testing.T, defs ...queue.Definition) queue.Queues

const (
	// short is the shortest time-out that every driver supports.
	short = time.Second
	// long is longer than any case takes.
	long = 5 * time.Minute
	// patience is how long a case waits for an expected message.
	patience = 2 * time.Minute
	// settle is how long a case watches for unexpected messages.
	settle = 100 * time.Millisecond
)

var cases = []struct {
	name string
	run  func(t *testing.T, newQueues NewQueues)
}{
	{"Send/OneMessage", sendOne},
	{"Send/Nothing", sendNothing},
	{"Send/ManyBatches", sendManyBatches},
	{"Send/LargeBodies", sendLargeBodies},
	{"Send/Delay", sendDelay},
	{"Receive/EmptyQueue", receiveEmpty},
	{"Receive/WaitsForMessage", receiveWaits},
	{"Receive/EndsWithContext", receiveEndsWithContext},
	{"Delete/Removes", deleteRemoves},
	{"Delete/Twice", deleteTwice},
	{"Visibility/Expires", visibilityExpires},
	{"Visibility/ExtendHolds", extendHolds},
	{"Visibility/ExtendZeroReturns", extendZero},
	{"Visibility/ExtendAfterDelete", extendAfterDelete},
	{"Visibility/ExtendForeignReceipt", extendForeign},
	{"Redrive/AfterMaxReceives", redrive},
	{"Redrive/DeletedInTime", redriveNot},
	{"Groups/Share", groupsShare},
	{"Limits/Refused", limitsRefused},
	{"Limits/UnknownQueue", unknownQueue},
	{"Stats/Counts", statsCounts},
	{"Stats/Depth", depth},
	{"Queues/AreApart", queuesApart},
	{"Concurrency/EachOnce", concurrency},
}

// Gap is a case in which the server a driver is tested against, such as an
// emulator, differs from SQS. Gaps are of servers, never of drivers.
type Gap struct {
	Case   string // such as "Groups/Share"
	Reason string // what the server does instead
	// Wrap works around the difference so that the case can run; nil skips the
	// case.
	Wrap func(queue.Queues) queue.Queues
}

// Exercise runs the suite and logs the gaps.
func Exercise(t *testing.T, newQueues NewQueues, gaps ...Gap) {
	var calls recorded
	var ran atomic.Int64
	of := make(map[string]Gap, len(gaps))
	for _, gap := range gaps {
		require.NotEmpty(t, gap.Reason, "the gap %s has no reason", gap.Case)
		of[gap.Case] = gap
	}
	omitted := 0
	t.Run("Cases", func(t *testing.T) {
		for _, c := range cases {
			gap, known := of[c.name]
			delete(of, c.name)
			if known {
				t.Logf("%s: run %t: %s", c.name, gap.Wrap != nil, gap.Reason)
			}
			if known && gap.Wrap == nil {
				omitted++
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				ran.Add(1)
				c.run(t, func(t *testing.T, defs ...queue.Definition) queue.Queues {
					qs := newQueues(t, defs...)
					if known {
						qs = gap.Wrap(qs)
					}
					return &recorder{calls: &calls, next: qs}
				})
			})
		}
	})
	require.Empty(t, of, "gaps in cases that there are not")
	if int(ran.Load())+omitted < len(cases) {
		return // a -run pattern excluded cases
	}
	for method := range reflect.TypeFor[queue.Queues]().Methods() {
		require.True(t, calls.has(method.Name), "the suite never calls %s", method.Name)
	}
}
