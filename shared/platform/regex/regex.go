// Package regex compiles regular expressions of users, bounded in size and with
// a known matching cost.
package regex

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// Limits of a pattern.
const (
	MaxBytes   = 1_000 // of its source
	MaxProgram = 2_000 // instructions it compiles to, where x{1000} counts a thousand
)

// Regexp is a compiled pattern in RE2 syntax. It reports only whether a text
// matches; groups capture nothing.
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
	// Compiling unrolls repetitions, so check the size first.
	size := program(tree)
	if size > MaxProgram { //guard:regex/program false
		return nil, fmt.Errorf("it compiles to more than %d instructions; x{n} counts n times", MaxProgram)
	}
	// Each matcher thread would hold the positions of all groups.
	re, err := regexp.Compile(withoutGroups(tree).String())
	if err != nil {
		return nil, err
	}
	return &Regexp{re: re, source: pattern, size: size}, nil
}

// program returns a lower bound of the size of the compiled expression.
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

// Cost returns the steps that matching a text of the given length takes: about
// 30 ns for each byte and instruction.
func (r *Regexp) Cost(bytes int) int { return 1 + bytes/8*r.size + bytes%8*r.size/8 }

// CompileCost returns the most steps that compiling a pattern of the given
// length takes.
func CompileCost(bytes int) int { return 100 + 10*min(bytes, MaxBytes) }

// MatchString reports whether the text contains a match.
func (r *Regexp) MatchString(text string) bool { return r.re.MatchString(text) }

// String returns the source of the pattern.
func (r *Regexp) String() string { return r.source }
