package regex_test

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/regex"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{`^[0-9]{4}-[0-9]{2}$`, "2026-01", true},
		{`^[0-9]{4}-[0-9]{2}$`, "2026-1", false},
		{`^(a|(b(c)))+$`, "abca", true},
		{`(?i)^(?P<name>straße)$`, "STRASSE", false},
		{`(?i)^(?P<name>straße)$`, "StraßE", true},
		{``, "", true},
	} {
		re, err := regex.Compile(c.pattern)
		require.NoError(t, err, c.pattern)
		assert.Equal(t, c.want, re.MatchString(c.text), c.pattern)
		assert.Equal(t, c.pattern, re.String())
	}
}

func TestOversizedPatternIsRejected(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"(":                              "missing closing )",
		strings.Repeat("a", 1001):        "at most 1000 bytes, this one has 1001",
		strings.Repeat("(x?){1000}", 90): "more than 2000 instructions",
		`(?:a{30}b{30}){30}`:             "more than 2000 instructions",
		strings.Repeat(`a{30}b{30}`, 40): "instructions",
	} {
		_, err := regex.Compile(pattern)
		assert.ErrorContains(t, err, want)
	}
}

func TestCostGrowsWithTextAndPattern(t *testing.T) {
	t.Parallel()
	small, err := regex.Compile("a")
	require.NoError(t, err)
	large, err := regex.Compile("a{500}")
	require.NoError(t, err)
	assert.Greater(t, small.Cost(80_000), 9*small.Cost(8_000))
	assert.Greater(t, large.Cost(8_000), 100*small.Cost(8_000))
}

// The size charged for a pattern is about that of the compiled program, and
// removing the groups does not change what it matches.
func FuzzCompile(f *testing.F) {
	f.Add(`^(a|b){2,5}?[^x-z\d]*$`, "ababq")
	f.Add(`(?i)(?:\pL+|(.)\b){3}`, "Zür ich")
	f.Add(`(x?){300}|(?s:.)*`, "xxx")
	f.Add(`((a{10}){10}){10}`, "aa")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		re, err := regex.Compile(pattern)
		if err != nil {
			return
		}
		tree, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err)
		prog, err := syntax.Compile(tree.Simplify())
		require.NoError(t, err)
		assert.LessOrEqual(t, len(prog.Inst), 4*re.Cost(8)+4, pattern)
		if len(text) <= 1000 {
			assert.Equal(t, regexp.MustCompile(pattern).MatchString(text), re.MatchString(text), pattern)
		}
	})
}
