package table

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// Position is the last key a page read, after which the query continues.
type Position struct {
	Key   Key // of the item
	Entry Key // of its position in the index; zero for a query of the table
}

const cursorVersion = 1

// EncodeCursor returns the cursor of a position in a query.
func EncodeCursor(q Query, p Position) Cursor {
	b := []byte{cursorVersion}
	for _, s := range []string{string(q.Index), p.Key.PK, p.Key.SK, p.Entry.PK, p.Entry.SK} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return Cursor(base64.RawURLEncoding.EncodeToString(b))
}

// DecodeCursor decodes a cursor of the query. It returns ErrBadCursor if the
// cursor is malformed, or of another index, partition or range.
func DecodeCursor(q Query) (Position, error) {
	b, err := base64.RawURLEncoding.DecodeString(string(q.Start))
	if err != nil || len(b) == 0 || b[0] != cursorVersion {
		return Position{}, fmt.Errorf("%w: unreadable", ErrBadCursor)
	}
	var index string
	var p Position
	b = b[1:]
	for _, s := range []*string{&index, &p.Key.PK, &p.Key.SK, &p.Entry.PK, &p.Entry.SK} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return Position{}, fmt.Errorf("%w: unreadable", ErrBadCursor)
		}
		*s = string(b[size : size+int(n)])
		b = b[size+int(n):]
	}
	position := p.Key
	if q.Index != "" {
		position = p.Entry
	}
	switch {
	case len(b) > 0 || CheckKey(p.Key) != nil || CheckKey(position) != nil:
		return Position{}, fmt.Errorf("%w: unreadable", ErrBadCursor)
	case index != string(q.Index) || position.PK != q.PK || !q.Range.Contains(position.SK),
		q.Index == "" && p.Entry != Key{}:
		return Position{}, fmt.Errorf("%w: of another query", ErrBadCursor)
	}
	return p, nil
}
