package sqltable

import "strings"

// ends has, for beginnings of partition keys up to a #, a key behind which the
// database has none that begins so. Keys that only ever grow, as those of new
// runs do, need not be looked for there.
type ends map[string]string

// maxEnds is how many are kept.
const maxEnds = 4096

// beginnings calls yield with those of a partition key that end with a #.
func beginnings(pk string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range len(pk) {
			if pk[i] == '#' && !yield(pk[:i+1]) {
				return
			}
		}
	}
}

// behind reports whether pk, and with it all of its family, is behind what the
// database has.
func (e ends) behind(pk string) bool {
	for begin := range beginnings(pk) {
		if end, known := e[begin]; known && pk > end {
			return true
		}
	}
	return false
}

// grow notes that the database has the partition pk.
func (e ends) grow(pk string) {
	for begin := range beginnings(pk) {
		if end, known := e[begin]; known {
			e[begin] = max(end, pk)
		}
	}
}

// unknownEnd returns the longest beginning of pk whose end is worth reading, ""
// for none.
func (m *memory) unknownEnd(pk string) string {
	begin := pk[:strings.LastIndexByte(pk, '#')+1]
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, known := m.ends[begin]; known {
		return ""
	}
	return begin
}

// ended notes the last partition key of the database with a beginning, as it was
// read. What has been folded since is in the memory, for no row was forgotten.
func (m *memory) ended(begin, last string) {
	for pk := range m.parts {
		if strings.HasPrefix(pk, begin) {
			last = max(last, pk)
		}
	}
	if len(m.ends) >= maxEnds {
		clear(m.ends)
	}
	m.ends[begin] = last
}
