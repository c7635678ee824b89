package budget

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
)

// stop is what Must throws through a library that knows no budget.
type stop struct{ err error }

// Must ends the [Budget.Do] around it if err is not nil. It is for what a
// library calls back and cannot return an error.
func Must(err error) {
	if err != nil {
		panic(stop{err})
	}
}

// PanicError says that a library could not cope with its input. Its text names
// nothing of the input; the stack is logged.
type PanicError struct{ Doing string }

// Error is a sentence without a subject.
func (e *PanicError) Error() string { return "cannot be processed" }

// Do runs a library on input of users. A panic of the library is the input's
// fault: it is logged with its stack and becomes a [*PanicError]. doing is for
// the log. Errors given to [Must] within are returned as they are.
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

// Report logs a library's panic. Of its value it shows only what the Go runtime
// itself says: others quote the input.
func Report(ctx context.Context, doing string, value any) {
	what := fmt.Sprintf("%T", value)
	if e, ok := value.(runtime.Error); ok {
		what = e.Error()
	}
	slog.ErrorContext(ctx, "a library panicked on a user's input", "doing", doing, "panic", what, "stack", string(debug.Stack()))
}
