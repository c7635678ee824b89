package httpapi_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

func cursors(key string) httpapi.Cursors {
	return httpapi.New(httpapi.Config{CursorKey: []byte(key)}).Cursors()
}

func TestCursors(t *testing.T) {
	t.Parallel()
	c, other := cursors("0123456789abcdef"), cursors("0123456789abcdeX")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, 60)
		org, scope, cursor := text.Draw(t, "org"), text.Draw(t, "scope"), table.Cursor(rapid.StringN(1, 40, 60).Draw(t, "cursor"))
		token := c.Seal(org, scope, cursor)
		got, err := c.Open(org, scope, token)
		require.NoError(t, err)
		assert.Equal(t, cursor, got)
		for _, open := range []func() (table.Cursor, error){
			func() (table.Cursor, error) { return c.Open(org+"x", scope, token) },
			func() (table.Cursor, error) { return c.Open(org, scope+"x", token) },
			func() (table.Cursor, error) { return c.Open(org+scope, "", token+"A") },
			func() (table.Cursor, error) { return other.Open(org, scope, token) },
			func() (table.Cursor, error) { return c.Open(org, scope, token[1:]) },
			func() (table.Cursor, error) { return c.Open(org, scope, text.Draw(t, "junk")+"!") },
		} {
			_, err := open()
			assert.Equal(t, errs.Invalid, errs.CodeOf(err))
		}
	})
}

func TestCursorEnds(t *testing.T) {
	t.Parallel()
	c := cursors("0123456789abcdef")
	assert.Empty(t, c.Seal("o", "s", ""))
	got, err := c.Open("o", "s", "")
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Panics(t, func() { cursors("short").Seal("o", "s", "x") })
	_, err = cursors("").Open("o", "s", c.Seal("o", "s", "x"))
	assert.EqualError(t, err, "invalid: Invalid next_token")
}
