package mask

import (
	"bytes"
	"strings"
)

// patterns finds any of many texts of at least four bytes. Two bytes suffice to
// skip most positions of a text.
type patterns struct {
	pairs   [1 << 10]uint64 // by the first two bytes, as bits
	byFour  map[[4]byte][]string
	longest int
}

func compile(forms []string) *patterns {
	p := &patterns{byFour: map[[4]byte][]string{}}
	seen := map[string]bool{}
	for _, f := range forms {
		if seen[f] || len(f) < 4 {
			continue
		}
		seen[f] = true
		pair := uint16(f[0])<<8 | uint16(f[1])
		p.pairs[pair>>6] |= 1 << (pair & 63)
		four := [4]byte([]byte(f[:4]))
		p.byFour[four] = append(p.byFour[four], f)
		p.longest = max(p.longest, len(f))
	}
	return p
}

// may reports whether a pattern may begin at the start of b, which has at least
// two bytes.
func (p *patterns) may(b []byte) bool {
	pair := uint16(b[0])<<8 | uint16(b[1])
	return p.pairs[pair>>6]&(1<<(pair&63)) != 0
}

// at returns the length of the longest pattern that b begins with, 0 if none.
func (p *patterns) at(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	if !p.may(b) {
		return 0
	}
	most := 0
	for _, f := range p.byFour[[4]byte(b[:4])] {
		if len(f) > most && len(f) <= len(b) && string(b[:len(f)]) == f {
			most = len(f)
		}
	}
	return most
}

// mask hides values in plain text. Overlapping stretches become one.
func (p *patterns) mask(text []byte) (out []byte, hit bool) {
	from, end := 0, -1 // start of the text not yet written; end of the current stretch
	for i := range text {
		if i == end {
			out, from, end = append(out, Stars...), i, -1
		}
		if n := p.at(text[i:]); n > 0 {
			if end < 0 {
				out = append(out, text[from:i]...)
			}
			end, hit = max(end, i+n), true
		}
	}
	if end >= 0 {
		return append(out, Stars...), true
	}
	return append(out, text[from:]...), hit
}

// scanner hides values in JSON, in any number of steps.
type scanner struct {
	find     *patterns
	inString bool
	covered  int // bytes ahead in a stretch whose stars are already written
	hit      bool
}

// scan appends the masked form of src to dst and returns how much of src it
// consumed: all of it if it is the last.
func (s *scanner) scan(dst, src []byte, last bool) (out []byte, used int) {
	i, ready := 0, len(src)-1 // as far as whole patterns are visible
	if !last {
		ready = len(src) - s.find.longest - 6
	}
	for i < len(src) {
		n := 0
		if s.inString && s.covered == 0 {
			for i+n < ready && src[i+n] != '"' && src[i+n] != '\\' && !s.find.may(src[i+n:]) {
				n++
			}
			dst = append(dst, src[i:i+n]...)
			i += n
		}
		switch {
		case s.inString:
			if !last && i >= ready {
				return dst, i
			}
			dst, n = s.unit(dst, src[i:])
		default:
			if dst, n = s.between(dst, src[i:], last); n == 0 {
				return dst, i
			}
		}
		i += n
	}
	return dst, i
}

// unit consumes one character of a string, as it is written, or the string's
// end. Patterns begin and end at characters, so no escape is split.
func (s *scanner) unit(dst, b []byte) ([]byte, int) {
	n := 1
	switch {
	case s.covered == 0 && b[0] == '"':
		s.inString = false
	case b[0] == '\\' && len(b) > 1 && b[1] == 'u':
		n = min(6, len(b))
	case b[0] == '\\':
		n = min(2, len(b))
	}
	if s.inString {
		if m := s.find.at(b); m > 0 {
			if s.covered == 0 {
				dst = append(dst, Stars...)
			}
			s.covered, s.hit = max(s.covered, m), true
		}
	}
	if s.covered > 0 {
		s.covered = max(0, s.covered-n)
		return dst, n
	}
	return append(dst, b[:n]...), n
}

// between consumes text outside of strings: a character, or a whole number or
// literal. It consumes nothing if that may continue beyond b.
func (s *scanner) between(dst, b []byte, last bool) ([]byte, int) {
	if b[0] == '"' {
		s.inString = true
		return append(dst, '"'), 1
	}
	const ends = " \t\r\n,:[]{}\""
	if strings.IndexByte(ends, b[0]) >= 0 {
		return append(dst, b[0]), 1
	}
	n := bytes.IndexAny(b, ends)
	if n < 0 {
		if !last {
			return dst, 0
		}
		n = len(b)
	}
	for i := range n {
		if m := s.find.at(b[i:n]); m > 0 {
			s.hit = true
			return append(append(append(dst, '"'), Stars...), '"'), n
		}
	}
	return append(dst, b[:n]...), n
}
