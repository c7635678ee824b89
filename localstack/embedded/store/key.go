package store

// Keys are made of parts, and sorted by them one after the other: a part that
// others follow is escaped and ended, so that no part reads into the next. The
// first byte of a key is its space.
const (
	ItemSpace    = 't' // of package pebbletable; pk, sk: an item's other attributes
	EntrySpace   = 'i' // likewise; index, its pk, its sk, pk, sk: nothing
	ExpirySpace  = 'x' // likewise; Unix second, pk, sk: nothing
	MessageSpace = 'q' // of package pebblequeue; queue, group, visible from, number: a message
	CountSpace   = 'n' // likewise; queue: how many messages it has
	NumberSpace  = 's' // likewise; the first number that no message has
)

// partEnd ends a part. Within a part a zero byte is followed by 0xff.
var partEnd = []byte{0, 1}

// AppendPart appends a part that another follows.
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

// CutPart reads a part back and returns what follows it; false if key has none.
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

// After is the first key behind all those that begin with prefix. The prefix
// must not be of 0xff bytes only.
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
