package worker

import (
	"context"
	"errors"
	"time"

	"millrace/shared/platform/queue"
	"millrace/shared/run/executor"
)

// The times of waiting for a place.
const (
	placeWait  = 5 * time.Minute  // after which the message goes back to its queue
	placeAgain = 15 * time.Second // for which it then stays there
)

// mostDeliveries is after how many deliveries a message that waits for a place is
// sent anew. It is not to blame for the processes that died while it waited, and
// would be given up; one that kills its process loses leases, and those are counted.
const mostDeliveries = 5

// place is what an attempt takes up while it executes: a Python interpreter, for
// one. It is taken before the attempt is claimed, so that waiting for it is no
// part of the attempt. A nil place is none.
type place struct{ release func() }

// reserve takes a place for a task type. It returns false if none was to be had
// for so long that the message had better go back to its queue.
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

// giveBack frees the place; it may be called again.
func (p *place) giveBack() {
	if p.taken() {
		p.release()
		p.release = nil
	}
}
