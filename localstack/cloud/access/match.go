package access

import "strings"

// like matches a text with a pattern, in which * is any text and ? is any
// character.
func like(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, mark := -1, 0 // of the last *, and the text that it covers to
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || literal(p[i]) == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// anyLike reports whether one of the patterns matches a text.
func anyLike(patterns []string, text string) bool {
	for _, pattern := range patterns {
		if like(pattern, text) {
			return true
		}
	}
	return false
}

// likeARN matches an ARN: wildcards do not reach over the colons before its
// resource. "*" matches all.
func likeARN(pattern, arn string) bool {
	if pattern == "*" {
		return true
	}
	p, a := strings.SplitN(pattern, ":", 6), strings.SplitN(arn, ":", 6)
	if len(p) != 6 || len(a) != 6 {
		return false
	}
	for i := range p {
		if !like(p[i], a[i]) {
			return false
		}
	}
	return true
}

// Characters that stand for ${*}, ${?} and ${$}, and for those of values: they
// are no wildcards.
var escapes = map[string]rune{"*": '\uE000', "?": '\uE001', "$": '\uE002'}

func literal(r rune) rune {
	for text, stand := range escapes {
		if r == stand {
			return rune(text[0])
		}
	}
	return r
}

// fill replaces the variables of a pattern, such as ${aws:PrincipalTag/org}. It
// returns false if the context has no such value, or several: then the pattern
// matches nothing.
func fill(pattern string, c Context) (string, bool) {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(pattern, "${")
		out.WriteString(before)
		if !found {
			return out.String(), true
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return "", false
		}
		if stand, is := escapes[name]; is {
			out.WriteRune(stand)
		} else {
			values := c[name]
			if len(values) != 1 {
				return "", false
			}
			for _, r := range values[0] {
				if stand, is := escapes[string(r)]; is {
					r = stand
				}
				out.WriteRune(r)
			}
		}
		pattern = after
	}
}
