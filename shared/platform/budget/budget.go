// Package budget bounds the work that one request or one evaluation may cause:
// checking a flow_spec, validating parameters, evaluating an expression. The
// work charges steps and bytes to its budget and stops when either is used up,
// when its context is cancelled, or when its deadline has passed.
//
// Longer work proceeds in turns. Workspaces take turns in rotation, and half of
// the cores stay free for everything else.
//
// A step stands for about 200 ns of one core.
package budget

import (
	"context"
	"fmt"
	"math"
)

// Limits are the size of a budget.
type Limits struct {
	Steps int64 // of work, about 200 ns each
	Bytes int64 // built in memory
}

// Budget holds the remaining allowance of a piece of work. It is not safe for
// concurrent use.
type Budget struct {
	ctx    context.Context
	limits Limits
	steps  int64 // used
	bytes  int64 // used
	look   int64 // number of used steps at which to check the context and the turn
	turn   bool  // whether it holds one of the gate's turns
	gate   *gate
	err    error // why it has stopped
}

// New returns a budget for work on behalf of ctx. The caller must call end when
// the work is done, to release its turn, and Rest before it waits for other
// work that has a budget.
func New(ctx context.Context, limits Limits) (b *Budget, end func()) {
	b = &Budget{ctx: ctx, limits: limits, look: allowance, gate: turns, err: context.Cause(ctx)}
	return b, b.end
}

// Unlimited returns a budget that never stops, for work that is known to be
// bounded.
func Unlimited() *Budget {
	return &Budget{
		ctx: context.Background(), look: math.MaxInt64, gate: turns,
		limits: Limits{Steps: math.MaxInt64, Bytes: math.MaxInt64},
	}
}

// Exceeded is the error of a budget that is used up.
type Exceeded struct {
	Limit int64
	Unit  string // "steps" or "bytes"
}

// Error returns a sentence for the user, without a subject.
func (e *Exceeded) Error() string {
	if e.Unit == "bytes" {
		return fmt.Sprintf("builds too much; at most %d bytes are allowed", e.Limit)
	}
	return fmt.Sprintf("does too much work; at most %d steps are allowed", e.Limit)
}

// Spend charges steps before they are executed. It returns an [*Exceeded] or
// the cause of the context's end. Once a budget has stopped, every further call
// returns the same error.
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

// Take charges bytes before they are allocated. Errors are those of Spend.
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

// Err returns why the budget has stopped, or nil.
func (b *Budget) Err() error { return b.err }

// Left returns the number of steps that may still be spent.
func (b *Budget) Left() int { return int(b.limits.Steps - b.steps) }

// Used returns the steps and bytes charged so far.
func (b *Budget) Used() Limits { return Limits{Steps: b.steps, Bytes: b.bytes} }
