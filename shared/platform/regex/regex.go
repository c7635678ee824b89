// Package regex compiles the regular expressions that users write: bounded in
// size, and with a known cost of matching.
package regex

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The bounds of a pattern.
const (
	MaxBytes   = 1_000 // of its source
	MaxProgram = 2_000 // instructions it compiles to, where x{1000} counts a thousand
)

// Regexp is a compiled pattern, in RE2's syntax. It only tells whether a text
// matches: groups capture nothing.
type Regexp struct {
	re     *regexp.Regexp
	source string
	size   int
}

// Compile checks and compiles a pattern. The error is a sentence for the user.
func Compile(pattern string) (*Regexp, error) {
	if len(pattern) > MaxBytes {
		return nil, fmt.Errorf("a pattern may have at most %d bytes, this one has %d", MaxBytes, len(pattern))
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	// Repetitions are unrolled when it is compiled: the size is told before.
	size := program(tree)
	if size > MaxProgram { //guard:regex/program false
		return nil, fmt.Errorf("it compiles to more than %d instructions; x{n} counts n times", MaxProgram)
	}
	// Each thread of a matcher holds the places of all groups.
	re, err := regexp.Compile(withoutGroups(tree).String())
	if err != nil {
		return nil, err
	}
	return &Regexp{re: re, source: pattern, size: size}, nil
}

// program is the size of what an expression compiles to, at least.
func program(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/64
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		if n += program(sub); n > MaxProgram {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return min(n, MaxProgram+1)
}

func withoutGroups(re *syntax.Regexp) *syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	for i, sub := range re.Sub {
		re.Sub[i] = withoutGroups(sub)
	}
	return re
}

// Cost is how many steps it takes to match a text of so many bytes: some 30 ns
// for each byte and instruction.
func (r *Regexp) Cost(bytes int) int { return 1 + bytes/8*r.size + bytes%8*r.size/8 }

// CompileCost is how many steps it takes at most to compile a pattern of so many
// bytes.
func CompileCost(bytes int) int { return 100 + 10*min(bytes, MaxBytes) }

// MatchString tells whether the text contains a match.
func (r *Regexp) MatchString(text string) bool { return r.re.MatchString(text) }

// String is the pattern as it was written.
func (r *Regexp) String() string { return r.source }
