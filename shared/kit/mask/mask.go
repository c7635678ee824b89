// Package mask hides secret values in a task's log lines, errors and outputs. A
// value is found verbatim, in base64 (standard or URL-safe, anywhere in a
// longer text), URL-encoded, JSON-escaped and in the form of Python's repr, in
// which Python prints the elements of a list, a dict or an exception.
//
// It hides values printed by mistake. It cannot stop a task that discloses a
// secret on purpose, letter by letter or encrypted.
package mask

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
)

// MinLength is the length in bytes of the shortest value that is hidden.
// Shorter ones would mask ordinary text.
const MinLength = 6

// Stars replace each hidden stretch.
const Stars = "***"

// Masker hides values. The zero Masker hides none and costs nothing. It is safe
// for concurrent use; a value is hidden in calls that begin after its Add.
type Masker struct {
	mu     sync.RWMutex
	values map[string]struct{}
	text   *patterns // for plain text, nil while there are no values
	json   *patterns // for JSON
}

// Add hides a value from now on. If the value has several lines, each line is
// hidden, too, because logs are written by line.
func (m *Masker) Add(value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	parts := append(strings.FieldsFunc(value, func(r rune) bool { return r == '\n' || r == '\r' }), value, strings.TrimSpace(value))
	added := false
	for _, part := range parts {
		if _, known := m.values[part]; known || len(part) < MinLength {
			continue
		}
		if m.values == nil {
			m.values = map[string]struct{}{}
		}
		m.values[part] = struct{}{}
		added = true
	}
	if !added {
		return
	}
	var forms []string
	for v := range m.values {
		forms = append(forms, encodings(v)...)
	}
	m.text = compile(forms)
	var escaped []string
	for _, f := range forms {
		escaped = append(escaped, jsonForms(f)...)
	}
	m.json = compile(escaped)
}

// Empty reports whether no values are hidden.
func (m *Masker) Empty() bool {
	text, _ := m.patterns()
	return text == nil
}

func (m *Masker) patterns() (text, json *patterns) {
	if m == nil {
		return nil, nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.text, m.json
}

// String hides the values in a text. A text without any is returned unchanged.
func (m *Masker) String(s string) string {
	text, _ := m.patterns()
	if text == nil || s == "" {
		return s
	}
	out, hit := text.mask([]byte(s))
	if !hit {
		return s
	}
	return string(out)
}

// JSON hides the values in the strings of a JSON document, including keys, and
// replaces a number that contains one by a string of stars. The result is valid
// JSON if raw is. A document without any value is returned unchanged.
func (m *Masker) JSON(raw json.RawMessage) json.RawMessage {
	_, escaped := m.patterns()
	if escaped == nil || len(raw) == 0 {
		return raw
	}
	s := scanner{find: escaped}
	out, used := s.scan(nil, raw, true)
	if !s.hit || used < len(raw) {
		return raw
	}
	return out
}

// JSONReader is JSON for a document of any size: it masks r while it is read,
// in constant memory. After the end, hit reports whether anything was hidden.
func (m *Masker) JSONReader(r io.Reader) (masked io.Reader, hit func() bool) {
	_, escaped := m.patterns()
	if escaped == nil {
		return r, func() bool { return false }
	}
	s := &stream{src: r, scanner: scanner{find: escaped}}
	return s, func() bool { return s.hit }
}

// stream is a masked JSON document.
type stream struct {
	scanner
	src     io.Reader
	in, out []byte
	err     error
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		buf := make([]byte, 32<<10)
		n, err := s.src.Read(buf)
		s.in = append(s.in, buf[:n]...)
		s.err = err
		if err != nil && err != io.EOF {
			return 0, err
		}
		out, used := s.scan(nil, s.in, err == io.EOF)
		s.out = out
		s.in = append([]byte(nil), s.in[used:]...)
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}
