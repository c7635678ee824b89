package store

// Keys consist of parts and are ordered by them, one after the other: each part
// but the last is escaped and terminated, so that no part runs into the next.
// The first byte of a key is its space.
const (
	ItemSpace    = 't' // of package pebbletable; key pk, sk; value: the item's other attributes
	EntrySpace   = 'i' // likewise; key: index, its pk, its sk, pk, sk; no value
	ExpirySpace  = 'x' // likewise; key: Unix second, pk, sk; no value
	MessageSpace = 'q' // of package pebblequeue; key: queue, group, visible from, number; value: a message
	CountSpace   = 'n' // likewise; key: queue; value: its number of messages
	NumberSpace  = 's' // likewise; value: the first unused message number
)

// partEnd terminates a part. Within a part a zero byte is followed by 0xff.
var partEnd = []byte{0, 1}

// AppendPart appends a part that is not the last.
func AppendPart(key []byte, part string) []byte {
	for i := range len(part) {
		if c := part[i]; c == 0 {
			key = append(key, 0, 0xff)
		} else {
			key = append(key, c)
		}
	}
	return append(key, partEnd...)
}

// CutPart returns the first part of a key and the rest. ok is false if key has
// none.
func CutPart(key []byte) (part string, rest []byte, ok bool) {
	for i := 0; i+1 < len(key); i++ {
		if key[i] != 0 {
			continue
		}
		switch key[i+1] {
		case 1:
			return unescape(key[:i]), key[i+2:], true
		case 0xff:
			i++
		default:
			return "", nil, false
		}
	}
	return "", nil, false
}

func unescape(b []byte) string {
	for i := range b {
		if b[i] == 0 {
			out := append(make([]byte, 0, len(b)), b[:i]...)
			for ; i < len(b); i++ {
				out = append(out, b[i])
				if b[i] == 0 {
					i++
				}
			}
			return string(out)
		}
	}
	return string(b)
}

// After returns the first key after all keys that begin with prefix, which must
// not consist only of 0xff bytes.
func After(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			next := append([]byte(nil), prefix[:i+1]...)
			next[i]++
			return next
		}
	}
	panic("store: no key follows the prefix")
}
