package expr

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"

	"millrace/shared/platform/budget"
)

// dashed matches a task name with a dash after a dot, which CEL parses as a
// subtraction.
var dashed = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\b(tasks|secrets|params|vars)\.([A-Za-z]\w*(?:-\w+)+)`)
})

// issueError returns one sentence for the first issue.
func issueError(src string, issues *cel.Issues) error {
	first := issues.Errors()[0]
	at := first.Location
	e := &SyntaxError{Line: at.Line(), Column: at.Column() + 1, Msg: firstSentence(first.Message)}
	if e.Line < 1 {
		e.Line, e.Column = 0, 0
	}
	if m := dashed().FindStringSubmatch(src); m != nil {
		e.Msg += "; a name with a dash is written " + m[1] + `["` + m[2] + `"]`
	}
	return e
}

// firstSentence removes what only the library's authors can use.
func firstSentence(msg string) string {
	msg, _, _ = strings.Cut(msg, "\n")
	msg = strings.TrimPrefix(msg, "Syntax error: ")
	msg = strings.TrimSuffix(msg, " (in container '')")
	if head, _, ok := strings.Cut(msg, " expecting {"); ok {
		msg = head
	}
	msg = strings.ReplaceAll(msg, "'<EOF>'", "end of the expression")
	return readable(msg)
}

// readable replaces CEL's internal operator names (_+_, @in) by the operators.
func readable(msg string) string {
	for _, op := range []string{"+", "-", "*", "/", "%", "==", "!=", "<=", ">=", "<", ">", "&&", "||", "in"} {
		msg = strings.ReplaceAll(msg, "_"+op+"_", op)
	}
	return strings.NewReplacer("@in", "in", "_[_]", "[]", "_?_:_", "?:", "!_", "!").Replace(msg)
}

// budgetError returns why an evaluation was stopped: an [*EvalError], or the
// cause of its context's end.
func budgetError(err error) error {
	if used, ok := errors.AsType[*budget.Exceeded](err); ok {
		return evalErrorf("the expression %s", used)
	}
	return err
}

// noOverload begins the errors of values whose type an operator or a function does
// not take.
const noOverload = "no such overload: "

// maxShown is how many characters of an expression its errors tell.
const maxShown = 200

// shown is the source of an expression in an error, on one line.
func shown(src string) string {
	line := []rune(strings.Join(strings.Fields(src), " "))
	if len(line) > maxShown {
		return string(line[:maxShown]) + "…"
	}
	return string(line)
}

// runError converts the error of an evaluation to an [*EvalError].
func runError(ctx context.Context, err error) error {
	msg := firstSentence(err.Error())
	switch {
	case strings.HasPrefix(msg, "internal error: runtime error: hash of unhashable type"):
		msg = "an object's key must be a string, a number or a boolean"
	case strings.HasPrefix(msg, "internal error:"):
		// The library recovered from a panic, whose text may contain anything.
		budget.Report(ctx, "evaluate an expression", err)
		msg = "the expression cannot be evaluated"
	case strings.HasPrefix(msg, "no such overload"):
		msg = noOverload + "numbers with and without a fraction do not mix, convert with double(…) or int(…), or a value has another type than expected"
	case strings.HasSuffix(msg, "expected iterable type"):
		msg = noOverload + "map, filter and the like are for lists and objects"
	}
	return evalErrorf("%s", msg)
}
