package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"reflect"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/table"
)

// minCursorKey is the minimum size of a signing key, in bytes.
const minCursorKey = 16

// Cursors converts table cursors to next_token values and back. A token is
// signed and valid for one workspace, one operation, and one query's path and
// filters: all parameters of its input but limit and next_token.
type Cursors struct{ keys *keyring.Ring }

// Seal signs a cursor for the query of ctx and its input. The empty cursor, the
// end of a list, gives the empty token. It panics with a key of less than 16
// bytes.
func (c Cursors) Seal(ctx context.Context, in any, cursor table.Cursor) string {
	if cursor == "" {
		return ""
	}
	key := c.keys.Current(ctx)
	if len(key) < minCursorKey {
		panic("httpapi: no key to sign cursors with")
	}
	scope, _ := scopeOf(ctx, in)
	return base64.RawURLEncoding.EncodeToString(append(sign(key, append(scope, string(cursor))), cursor...))
}

// Open returns the cursor of the input's next_token, or the empty cursor if it
// has none. Errors: errs.Invalid for a token that was not sealed for this
// query.
func (c Cursors) Open(ctx context.Context, in any) (table.Cursor, error) {
	scope, token := scopeOf(ctx, in)
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) <= sha256.Size {
		return "", errs.New(errs.Invalid, "Invalid next_token")
	}
	mac, cursor := raw[:sha256.Size], string(raw[sha256.Size:])
	if !c.keys.Verify(ctx, func(key []byte) bool {
		return len(key) >= minCursorKey && hmac.Equal(mac, sign(key, append(scope, cursor)))
	}) {
		return "", errs.New(errs.Invalid, "Invalid next_token")
	}
	return table.Cursor(cursor), nil
}

// ReadPage reads a page of a list, and returns it with the next_token. read returns
// the items after a position, "" for the first ones, and the position after which the
// next page begins, "" if there is none. Errors: those of [Cursors.Open] and of read.
func ReadPage[T any](ctx context.Context, c Cursors, in any, read func(after string) ([]T, string, error)) (items []T, token string, err error) {
	after, err := c.Open(ctx, in)
	if err != nil {
		return nil, "", err
	}
	items, next, err := read(string(after))
	if err != nil {
		return nil, "", err
	}
	return items, c.Seal(ctx, in, table.Cursor(next)), nil
}

// scopeOf returns what a token is valid for, and the token of the input.
func scopeOf(ctx context.Context, in any) (scope []string, token string) {
	scope = []string{tenant.From(ctx).OrgID, callFrom(ctx).subject.Operation}
	v := reflect.ValueOf(in)
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return filters(v, scope)
}

func filters(v reflect.Value, scope []string) ([]string, string) {
	token := ""
	for f, value := range v.Fields() {
		name := f.Tag.Get("query")
		if name == "" {
			name = f.Tag.Get("path")
		}
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			var inner string
			if scope, inner = filters(value, scope); inner != "" {
				token = inner
			}
		case name == "next_token":
			token = value.String()
		case name != "" && name != "limit":
			for value.Kind() == reflect.Pointer && !value.IsNil() {
				value = value.Elem()
			}
			scope = append(scope, name, fmt.Sprint(value.Interface()))
		}
	}
	return scope, token
}

// sign computes the MAC of the parts, each prefixed with its length, so that
// different parts never give the same input.
func sign(key []byte, parts []string) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		mac.Write(size[:])
		mac.Write([]byte(part))
	}
	return mac.Sum(nil)
}
