package httpapi_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/table"
	"millrace/shared/web/httpapi"
)

func cursors(key string) httpapi.Cursors {
	return httpapi.New(httpapi.Config{CursorKeys: keyring.Static([]byte(key))}).Cursors()
}

// pageQuery is a query with a filter and a path parameter.
type pageQuery struct {
	Flow  string  `path:"flow"`
	State string  `query:"state"`
	Mode  *string `query:"mode"`
	Limit int     `query:"limit"`
	Token string  `query:"next_token"`
}

func in(org string) context.Context {
	return tenant.With(context.Background(), tenant.Principal{OrgID: org})
}

func TestCursorIsValidOnlyForItsWorkspaceAndQuery(t *testing.T) {
	t.Parallel()
	c, other := cursors("0123456789abcdef"), cursors("0123456789abcdeX")
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 40, 60)
		org, cursor := text.Draw(t, "org"), table.Cursor(rapid.StringN(1, 40, 60).Draw(t, "cursor"))
		q := pageQuery{Flow: text.Draw(t, "flow"), State: text.Draw(t, "state"), Mode: new("m"), Limit: 5}
		q.Token = c.Seal(in(org), &q, cursor)
		more := q
		more.Limit = 500
		got, err := c.Open(in(org), &more)
		require.NoError(t, err, "the limit may change from page to page")
		assert.Equal(t, cursor, got)
		changed := func(change func(*pageQuery)) *pageQuery {
			out := q
			change(&out)
			return &out
		}
		for _, open := range []func() (table.Cursor, error){
			func() (table.Cursor, error) { return c.Open(in(org+"x"), &q) },
			func() (table.Cursor, error) { return other.Open(in(org), &q) },
			func() (table.Cursor, error) { return c.Open(in(org), changed(func(q *pageQuery) { q.State += "x" })) },
			func() (table.Cursor, error) { return c.Open(in(org), changed(func(q *pageQuery) { q.Flow += "x" })) },
			func() (table.Cursor, error) {
				return c.Open(in(org), changed(func(q *pageQuery) { q.Mode = new("n") }))
			},
			func() (table.Cursor, error) { return c.Open(in(org), changed(func(q *pageQuery) { q.Mode = nil })) },
			func() (table.Cursor, error) { return c.Open(in(org), changed(func(q *pageQuery) { q.Token += "A" })) },
			func() (table.Cursor, error) {
				return c.Open(in(org), changed(func(q *pageQuery) { q.Token = q.Token[1:] }))
			},
			func() (table.Cursor, error) {
				return c.Open(in(org), changed(func(q *pageQuery) { q.Token = text.Draw(t, "junk") + "!" }))
			},
			func() (table.Cursor, error) {
				return c.Open(in(org), &struct {
					Token string `query:"next_token"`
				}{q.Token})
			},
		} {
			_, err := open()
			assert.Equal(t, errs.Invalid, errs.CodeOf(err))
		}
	})
}

func TestEndOfListHasNoCursor(t *testing.T) {
	t.Parallel()
	c := cursors("0123456789abcdef")
	assert.Empty(t, c.Seal(in("o"), &pageQuery{}, ""))
	got, err := c.Open(in("o"), &pageQuery{})
	require.NoError(t, err)
	assert.Empty(t, got)
	assert.Panics(t, func() { cursors("short").Seal(in("o"), &pageQuery{}, "x") })
	_, err = cursors("").Open(in("o"), &pageQuery{Token: c.Seal(in("o"), &pageQuery{}, "x")})
	assert.EqualError(t, err, "invalid: Invalid next_token")
}

// TestCursorOutlivesRotation of the key, but not two.
func TestCursorOutlivesRotation(t *testing.T) {
	t.Parallel()
	codec := func(keys ...string) httpapi.Cursors {
		var all [][]byte
		for _, key := range keys {
			all = append(all, []byte(key))
		}
		return httpapi.New(httpapi.Config{CursorKeys: keyring.Static(all...)}).Cursors()
	}
	const one, two, three = "0123456789abcde1", "0123456789abcde2", "0123456789abcde3"
	q := pageQuery{Flow: "f"}
	q.Token = codec(one).Seal(in("org_a"), &q, "x")
	rotated := codec(two, one)
	got, err := rotated.Open(in("org_a"), &q)
	require.NoError(t, err)
	assert.Equal(t, table.Cursor("x"), got)
	_, err = codec(three, two).Open(in("org_a"), &q)
	assert.Equal(t, errs.Invalid, errs.CodeOf(err))
	q.Token = rotated.Seal(in("org_a"), &q, "y")
	_, err = codec(two).Open(in("org_a"), &q)
	require.NoError(t, err, "the new key signs")
	_, err = codec("short", one).Open(in("org_a"), &q)
	assert.Equal(t, errs.Invalid, errs.CodeOf(err))
}
