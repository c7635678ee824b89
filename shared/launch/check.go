package launch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/shared/engine"
	"millrace/shared/errs"
	"millrace/shared/runstate"
	"millrace/shared/table"
)

// checkParameters refuses reserved names and too much.
func checkParameters(params map[string]json.RawMessage) error {
	var faults []errs.Detail
	size := 0
	for k, v := range params {
		size += len(k) + len(v) + 4
		if strings.HasPrefix(k, ReservedPrefix) {
			faults = append(faults, errs.Detail{
				Type: "value_error", Loc: errs.Body("parameters", k),
				Msg: "Parameters that begin with " + ReservedPrefix + " are reserved", Input: k,
			})
		}
	}
	slices.SortFunc(faults, func(a, b errs.Detail) int { return strings.Compare(fmt.Sprint(a.Input), fmt.Sprint(b.Input)) })
	if size > MaxParameters {
		faults = append(faults, errs.Detail{
			Type: "value_error", Loc: errs.Body("parameters"),
			Msg: fmt.Sprintf("Parameters have %d bytes, at most %d are allowed", size, MaxParameters),
		})
	}
	if len(faults) > 0 {
		return errs.Validation(faults...)
	}
	return nil
}

// idempotency is the item that remembers what an idempotency key was used for.
type idempotency struct {
	table.Key
	Run     string `table:"run"`
	Request string `table:"req"` // fingerprint of the request
	Expires int64  `table:"ttl"` // Unix second
}

func newIdempotency(org, flow, key, fingerprint, run string, now time.Time) (*idempotency, error) {
	if len(key) > MaxKey {
		return nil, errs.Validation(errs.Detail{
			Type: "string_too_long", Loc: []any{"header", "Idempotency-Key"}, Msg: fmt.Sprintf("Idempotency-Key has at most %d characters", MaxKey), Input: strings.ToValidUTF8(key[:32], "") + "…",
		})
	}
	return &idempotency{
		Key: table.Key{PK: org + "#idempotency#" + flow, SK: digest(key)}, //guard:tenant/idempotency operand 1 "org"
		Run: run, Request: fingerprint, Expires: now.Add(KeyLife).Unix(),
	}, nil
}

func (i *idempotency) put(now time.Time) table.Put {
	//guard:accept/key drop field If
	//guard:accept/expired-key-is-taken drop arg 2
	return table.Put{Item: *i, If: table.Or(table.IsNew(), table.Le(table.TTLAttribute, now.Unix()))}
}

// replay returns the run that the key was used for, as it was first answered;
// nil if the key is new. Errors: errs.Unprocessable if it was another request.
func (l *Launcher) replay(ctx context.Context, org string, i *idempotency) (*runstate.Run, error) {
	//guard:accept/key-consistent drop arg 4
	old, err := table.Load[idempotency](ctx, l.Table, i.Key, table.Consistent)
	//guard:accept/key-expires drop operand 2
	if errors.Is(err, table.ErrNotFound) || (err == nil && old.Expires <= l.Clock.Now().Unix()) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read idempotency key: %w", err)
	}
	if old.Request != i.Request { //guard:accept/fingerprint false
		return nil, errs.Validation(errs.Detail{
			Type: "value_error", Loc: []any{"header", "Idempotency-Key"}, Msg: "This Idempotency-Key was used for another request",
		})
	}
	run, err := runstate.GetRun(ctx, l.Table, org, old.Run)
	if err != nil {
		return nil, err
	}
	run.Status = engine.Queued // as the first answer said
	return &run, nil
}
