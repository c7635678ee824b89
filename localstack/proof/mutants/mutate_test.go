package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestOperators mutates lines of a function, each with the operator beside it.
func TestOperators(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ line, op, broken string }{
		{"if a && b {}", "true", "if (true || (a && b)) {}"},
		{"if v := f(a); v {}", "false", "if v := f(a); (false && (v)) {}"},
		{"switch { case a: g() }", "and b", "switch { case ((a) && (b)): g() }"},
		{"x := h(n, a || b)", "or c", "x := h(n, ((a || b) || (c)))"},
		{"x := f(a)", "false", "x := (false && (f(a)))"},
		{"return f(n < m)", "off -1", "return f(n < (m)-1)"},
		{"g()", "drop", "if false { g() }"},
		{"g()", "insert k()", "k(); g()"},
		{"g()", "when a", "if a { g() }"},
		{"g()", "return a", "if true { return a }; g()"},
		{"g(a, b)", "call h", "_ = func() { _ = g }; h(a, b)"},
		{"g(a, b)", "drop arg 2", "_ = func() { _ = b }; g(a)"},
		{"g(a, b)", "drop arg 1", "_ = func() { _ = a }; g(b)"},
		{"g(h(a, b), c)", "arg 1.2 k", "_ = func() { _ = b }; g(h(a, k), c)"},
		{"return a || (b && c)", "drop operand 2.1", "return a || ((true || (b)) && c)"},
		{"return a || b || c", "drop operand 2", "return a || (false && (b)) || c"},
		{`return s + "x" + u`, `operand 1 ""`, `_ = func() { _ = s }; return "" + "x" + u`},
		{"return n - m", "drop operand 2", "_ = func() { _ = m }; return n"},
		{"return T{F: a, G: b}", "drop field G", "_ = func() { _ = b }; return T{F: a}"},
		{"return T{F: a, G: b}", "field F 1", "_ = func() { _ = a }; return T{F: 1, G: b}"},
		{"g(\n\ta, b,\n\tc)", "drop", "_ = func() { _ = a }; _ = func() { _ = b }; g(\n\tc)"},
		{"g(\n\ta, b,\n)", "insert c", "g(\n\tc, a, b,\n)"},
		{"g(\n\ta,\n)", "hoist put(_)", "put(a); g(\n\t\n)"},
		{"switch n {\ncase 1:\n\tg()\ncase 2:\n}", "drop", "switch n {\n\ncase 2:\n}"},
	} {
		const head = "package p\n\nfunc f() (bool, error) {\n"
		line := 4
		if strings.HasPrefix(c.line, "g(\n") || strings.HasPrefix(c.line, "switch n") {
			line = 5
		}
		broken, err := mutate([]byte(head+c.line+"\n}\n"), line, c.op)
		assert.NoError(t, err, c.op)
		assert.Equal(t, head+c.broken+"\n}\n", string(broken), "%s: %s", c.line, c.op)
	}
	for _, op := range []string{"drop field If", "off +1", "arg 3 x", "operand 1 x", "drop arg 1.1", "hoist f(_)", "flip", "insert )"} {
		_, err := mutate([]byte("package p\n\nfunc f() {\ng(a, b)\n}\n"), 4, op)
		assert.Error(t, err, op)
	}
}
