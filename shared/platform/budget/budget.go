// Package budget bounds the work that one request or one evaluation may cause:
// checking a flow_spec, validating parameters, evaluating an expression. What
// does the work charges for it in steps and bytes, and stops when either is used
// up, when the caller is gone, or when its deadline has passed.
//
// Work that is more than a trifle goes on in turns, which workspaces take in
// rotation: half of the cores are left to everything else.
//
// A step is some 200 ns of one core; what charges is calibrated to that.
package budget

import (
	"context"
	"fmt"
	"math"
)

// Limits are the size of a budget.
type Limits struct {
	Steps int64 // of work, some 200 ns each
	Bytes int64 // built in memory
}

// Budget is what is left of a piece of work. It belongs to one goroutine.
type Budget struct {
	ctx    context.Context
	limits Limits
	steps  int64 // used
	bytes  int64 // used
	look   int64 // steps used from which it looks at the context, and at whose turn it is
	turn   bool  // it holds one of the gate's turns
	gate   *gate
	err    error // why it has stopped
}

// New makes a budget for what is done on behalf of ctx. The work must call end
// when it is done, so that others have their turn, and Rest before it waits for
// what has a budget of its own.
func New(ctx context.Context, limits Limits) (b *Budget, end func()) {
	b = &Budget{ctx: ctx, limits: limits, look: allowance, gate: turns, err: context.Cause(ctx)}
	return b, b.end
}

// Unlimited makes a budget that never stops, for what is known to be bounded.
func Unlimited() *Budget {
	return &Budget{
		ctx: context.Background(), look: math.MaxInt64, gate: turns,
		limits: Limits{Steps: math.MaxInt64, Bytes: math.MaxInt64},
	}
}

// Exceeded says that a budget is used up.
type Exceeded struct {
	Limit int64
	Unit  string // "steps" or "bytes"
}

// Error is a sentence for the user, without a subject.
func (e *Exceeded) Error() string {
	if e.Unit == "bytes" {
		return fmt.Sprintf("builds too much; at most %d bytes are allowed", e.Limit)
	}
	return fmt.Sprintf("does too much work; at most %d steps are allowed", e.Limit)
}

// Spend charges steps before they are taken. The error is an [*Exceeded], or why
// the context has ended; a budget that has stopped stays so.
func (b *Budget) Spend(steps int) error {
	if b.err != nil {
		return b.err
	}
	if steps < 0 || int64(steps) > b.limits.Steps-b.steps { //guard:budget/steps false
		b.steps = b.limits.Steps
		b.err = &Exceeded{Limit: b.limits.Steps, Unit: "steps"}
		return b.err
	}
	if b.steps += int64(steps); b.steps >= b.look {
		b.err = b.pause()
	}
	return b.err
}

// Take charges bytes before they are built. Errors are those of Spend.
func (b *Budget) Take(bytes int) error {
	if b.err != nil {
		return b.err
	}
	if bytes < 0 || int64(bytes) > b.limits.Bytes-b.bytes {
		b.bytes = b.limits.Bytes
		b.err = &Exceeded{Limit: b.limits.Bytes, Unit: "bytes"}
		return b.err
	}
	b.bytes += int64(bytes)
	return nil
}

// Err is why the budget has stopped, nil while it has not.
func (b *Budget) Err() error { return b.err }

// Left is how many steps may still be spent.
func (b *Budget) Left() int { return int(b.limits.Steps - b.steps) }

// Used is what has been charged so far.
func (b *Budget) Used() Limits { return Limits{Steps: b.steps, Bytes: b.bytes} }
