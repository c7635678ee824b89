package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/run/engine"
	"millrace/shared/run/runstate"
)

// idempotency is the item of an idempotency key's use with a flow. A key has a
// partition of its own with an item for each flow it was used with, so that a
// repeated request is recognized before what it names is read: its deployment
// may be gone by then.
type idempotency struct {
	table.Key
	Run     string `table:"run"`
	Request string `table:"req"` // fingerprint of the request
	Expires int64  `table:"ttl"` // Unix second
}

// uses are the unexpired uses of a key, by flow.
type uses map[string]idempotency

func keyPartition(org, key string) string {
	return org + "#idempotency#" + digest(key) //guard:tenant/idempotency operand 1 "org"
}

// use returns the first use of a request's key with the flow of a run.
func (l *Launcher) use(req *Request, run *runstate.Run) *idempotency {
	return &idempotency{
		Key: table.Key{PK: keyPartition(run.Org, req.Key), SK: run.Flow},
		Run: run.ID, Request: req.Fingerprint, Expires: l.Clock.Now().Add(KeyLifetime).Unix(),
	}
}

// put returns the write that takes the key for its flow, unless it is taken.
func (l *Launcher) put(i *idempotency) table.Put {
	//guard:accept/key drop field If
	//guard:accept/expired-key-is-taken drop arg 2
	return table.Put{Item: *i, If: table.Or(table.IsNew(), table.Le(table.TTLAttribute, l.Clock.Now().Unix()))}
}

// uses reads the uses of a key. An empty key has none.
func (l *Launcher) uses(ctx context.Context, org, key string) (uses, error) {
	if key == "" {
		return nil, nil
	}
	if len(key) > MaxKey {
		return nil, errs.Validation(errs.Detail{
			Type: "string_too_long", Loc: []any{"header", "Idempotency-Key"}, Msg: fmt.Sprintf("Idempotency-Key has at most %d characters", MaxKey), Input: strings.ToValidUTF8(key[:32], "") + "…",
		})
	}
	found := uses{}
	//guard:accept/key-consistent drop field Consistent
	q := table.Query{PK: keyPartition(org, key), Consistent: true}
	for item, err := range table.All(ctx, l.Table, q) {
		var i idempotency
		if err == nil {
			err = table.Unmarshal(item, &i)
		}
		if err != nil {
			return nil, fmt.Errorf("read idempotency key: %w", err)
		}
		if i.Expires > l.Clock.Now().Unix() { //guard:accept/key-expires true
			found[i.SK] = i
		}
	}
	return found, nil
}

// replay returns the run of an earlier request with the same key, as the
// response to that request described it; nil if there was none. A run that has
// not started is sent to the workers again: its message may have been lost with
// the response.
func (l *Launcher) replay(ctx context.Context, org, fingerprint string, known uses) (*runstate.Run, error) {
	for _, i := range known {
		if i.Request != fingerprint { //guard:accept/fingerprint false
			continue
		}
		run, err := runstate.GetRun(ctx, l.Table, org, i.Run, l.Clock.Now())
		if err != nil {
			return nil, err
		}
		if run.Status == engine.Queued { //guard:accept/replay-sends false
			l.dispatch(ctx, &run, "")
		}
		run.Status = engine.Queued // as in the first response
		return &run, nil
	}
	return nil, nil
}

// free returns errs.Unprocessable if the key was used for another request with
// the flow.
func (u uses) free(flow string) error {
	if _, taken := u[flow]; taken {
		return errs.Validation(errs.Detail{
			Type: "value_error", Loc: []any{"header", "Idempotency-Key"}, Msg: "This Idempotency-Key was used for another request",
		})
	}
	return nil
}

// raced returns the run of a concurrent request that took the key first.
func (l *Launcher) raced(ctx context.Context, p *plan) (runstate.Run, error) {
	known, err := l.uses(ctx, p.run.Org, p.key)
	if err != nil {
		return runstate.Run{}, err
	}
	first, err := l.replay(ctx, p.run.Org, p.idem.Request, known)
	if err == nil && first == nil {
		if err = known.free(p.run.Flow); err == nil {
			err = beingAccepted(nil)
		}
	}
	return deref(first), err
}

func beingAccepted(cause error) error {
	return errs.Wrap(errs.Conflict, cause, "A request with this Idempotency-Key is being accepted")
}

// taken reports whether a transaction failed because of its last write: the key
// was taken.
func taken(err error, writes int) bool {
	tx, ok := errors.AsType[*table.TransactionError](err)
	if !ok {
		return false
	}
	_, failed := tx.Failed(writes - 1)
	return failed
}
