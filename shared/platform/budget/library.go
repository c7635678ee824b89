package budget

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
)

// stop is the panic value by which Must unwinds a library that has no budget.
type stop struct{ err error }

// Must ends the enclosing [Budget.Do] with err if it is not nil. It is for
// callbacks of a library that cannot return an error.
func Must(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// PanicError reports that a library panicked on its input. Its text reveals
// nothing of the input; the stack is logged.
type PanicError struct{ Doing string }

// Error returns a predicate without a subject.
func (e *PanicError) Error() string { return "cannot be processed" }

// Do runs a library on user input. A panic of the library is blamed on the
// input: it is logged with its stack and becomes a [*PanicError]. doing
// describes the work in the log. Errors passed to [Must] within f are returned
// unchanged.
func (b *Budget) Do(doing string, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stop:
			err = p.err
		default:
			Report(b.ctx, doing, p)
			err = &PanicError{Doing: doing}
		}
	}()
	return f()
}

// Report logs a library's panic. It shows the panic value only if it is the Go
// runtime's own, because others may quote the input.
func Report(ctx context.Context, doing string, value any) {
	what := fmt.Sprintf("%T", value)
	if e, ok := value.(runtime.Error); ok {
		what = e.Error()
	}
	slog.ErrorContext(ctx, "a library panicked on a user's input", "doing", doing, "panic", what, "stack", string(debug.Stack()))
}
