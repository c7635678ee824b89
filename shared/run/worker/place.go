package worker

import (
	"context"
	"errors"
	"time"

	"millrace/shared/platform/queue"
	"millrace/shared/run/executor"
)

// Times of waiting for a slot.
const (
	placeWait  = 5 * time.Minute  // until the message returns to its queue
	placeAgain = 15 * time.Second // until it is delivered again
)

// mostDeliveries is the number of deliveries after which a message that waits
// for a slot is sent anew. Processes that died while it waited do not count
// against it, otherwise it would become a dead letter. A message that kills its
// processes loses leases, which are counted.
const mostDeliveries = 5

// place is a slot that an attempt needs while it executes, such as a Python
// interpreter. It is reserved before the attempt is claimed, so that the wait
// does not count as the attempt's time. A nil place is no slot.
type place struct{ release func() }

// reserve waits for a slot of a task type. It returns false if the wait took so
// long that the message should return to its queue.
func (s *session) reserve(ctx context.Context, kind string) (*place, bool, error) {
	scarce, ok := s.Executors[kind].(executor.Reserver)
	if !ok {
		return nil, true, nil
	}
	p := &place{}
	err := queue.Park(ctx, func(ctx context.Context) (err error) {
		limited, cancel := context.WithTimeout(ctx, placeWait)
		defer cancel()
		p.release, err = scarce.Reserve(limited, s.org)
		return err
	})
	switch {
	case err == nil:
		return p, true, nil
	case ctx.Err() == nil && (errors.Is(err, queue.ErrParked) || errors.Is(err, context.DeadlineExceeded)):
		return nil, false, nil
	}
	p.giveBack()
	return nil, false, err
}

func (p *place) taken() bool { return p != nil && p.release != nil }

// giveBack frees the slot. It may be called again.
func (p *place) giveBack() {
	if p.taken() {
		p.release()
		p.release = nil
	}
}
