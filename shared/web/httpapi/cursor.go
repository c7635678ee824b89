package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// minCursorKey is the least size of a key that may sign, in bytes.
const minCursorKey = 16

// Cursors turns table cursors into next_token values and back. A token is
// signed and holds for one workspace and one scope only.
type Cursors struct{ key []byte }

// Seal signs a cursor for a workspace and a scope: the operation's id and the
// filters of the list. The empty cursor, the end of a list, gives the empty
// token. It panics without a key of at least 16 bytes.
func (c Cursors) Seal(org, scope string, cursor table.Cursor) string {
	if cursor == "" {
		return ""
	}
	if len(c.key) < minCursorKey {
		panic("httpapi: no key to sign cursors with")
	}
	return base64.RawURLEncoding.EncodeToString(append(c.sign(org, scope, string(cursor)), cursor...))
}

// Open returns the cursor of a token, the empty cursor for the empty token.
// Errors: errs.Invalid for a token that was not sealed for this workspace and
// scope.
func (c Cursors) Open(org, scope, token string) (table.Cursor, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= sha256.Size || len(c.key) < minCursorKey {
		return "", errs.New(errs.Invalid, "Invalid next_token")
	}
	mac, cursor := raw[:sha256.Size], string(raw[sha256.Size:])
	if !hmac.Equal(mac, c.sign(org, scope, cursor)) {
		return "", errs.New(errs.Invalid, "Invalid next_token")
	}
	return table.Cursor(cursor), nil
}

// sign computes the MAC over the parts, each with its length, so that no two
// triples of parts look alike.
func (c Cursors) sign(org, scope, cursor string) []byte {
	mac := hmac.New(sha256.New, c.key)
	for _, part := range []string{org, scope, cursor} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}
