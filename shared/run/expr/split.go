package expr

import (
	"errors"
	"strings"
)

// segment is a part of a template string: text, or the source of an expression.
type segment struct {
	expression bool
	text       string
}

var errUnclosed = errors.New("a ${{ is not closed by }}; write $${{ for a literal ${{")

// split splits a template string at its expressions. Adjacent texts are joined.
func split(s string) ([]segment, error) {
	var out []segment
	var text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			out = append(out, segment{text: text.String()})
			text.Reset()
		}
	}
	for {
		i := strings.Index(s, "${{")
		if i < 0 {
			text.WriteString(s)
			flush()
			return out, nil
		}
		if i > 0 && s[i-1] == '$' {
			text.WriteString(s[:i-1])
			text.WriteString("${{")
			s = s[i+3:]
			continue
		}
		text.WriteString(s[:i])
		flush()
		s = s[i+3:]
		end := expressionEnd(s)
		if end < 0 {
			return nil, errUnclosed
		}
		out = append(out, segment{expression: true, text: strings.TrimSpace(s[:end])})
		s = s[end+2:]
	}
}

// expressionEnd returns the index of the }} that closes an expression, skipping
// those inside its strings and the braces of its objects; -1 if there is none.
func expressionEnd(s string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth > 0 {
				depth--
			} else if strings.HasPrefix(s[i:], "}}") {
				return i
			}
		case '"', '\'', '`':
			n := literalLen(s[i:], rawPrefix(s, i))
			if n < 0 {
				return -1
			}
			i += n - 1
		}
	}
	return -1
}

// rawPrefix tells whether the quote at i opens a raw string: r"…", Rb'…', bR"…".
func rawPrefix(s string, i int) bool {
	from := i
	for from > 0 && i-from < 2 && strings.IndexByte("rRbB", s[from-1]) >= 0 {
		from--
	}
	if from > 0 && (s[from-1] == '_' || isAlnum(s[from-1])) {
		return false
	}
	return strings.ContainsAny(s[from:i], "rR")
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// literalLen is the length of the string literal that s begins with, -1 if it
// does not end.
func literalLen(s string, raw bool) int {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); quote != "`" && strings.HasPrefix(s, triple) {
		quote = triple
	}
	for i := len(quote); i < len(s); i++ {
		if s[i] == '\\' && !raw && quote != "`" {
			i++
			continue
		}
		if strings.HasPrefix(s[i:], quote) {
			return i + len(quote)
		}
	}
	return -1
}
