package ticket_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/platform/keyring"
	"millrace/shared/run/sandbox/ticket"
)

var (
	now  = time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	key  = bytes.Repeat([]byte{7}, ticket.MinKey)
	ring = keyring.Static(key)
)

func TestTokenIsValidUntilItExpires(t *testing.T) {
	t.Parallel()
	index := 3
	want := ticket.Attempt{Org: "org_a", Run: "R", Node: 4, Number: 2, Task: "each", MapIndex: &index, Expires: now.Unix() + 60}
	token := ticket.Sign(key, want)
	got, err := ticket.Check(t.Context(), ring, token, now.Add(59*time.Second))
	require.NoError(t, err)
	assert.Equal(t, want, got)

	_, err = ticket.Check(t.Context(), ring, token, now.Add(time.Minute))
	require.ErrorIs(t, err, ticket.ErrInvalid)
	_, err = ticket.Check(t.Context(), keyring.Static(bytes.Repeat([]byte{8}, ticket.MinKey)), token, now)
	require.ErrorIs(t, err, ticket.ErrInvalid)
	_, err = ticket.Check(t.Context(), nil, token, now)
	require.ErrorIs(t, err, ticket.ErrInvalid, "without a key nothing is taken")
	assert.Panics(t, func() { ticket.Sign(key[1:], want) })
}

func TestChangedTokenIsInvalid(t *testing.T) {
	t.Parallel()
	token := ticket.Sign(key, ticket.Attempt{Org: "org_a", Run: "R", Number: 1, Task: "t", Expires: now.Unix() + 60})
	rapid.Check(t, func(t *rapid.T) {
		changed := []byte(token)
		at := rapid.IntRange(0, len(changed)-1).Draw(t, "at")
		changed[at] = rapid.Byte().Filter(func(b byte) bool { return b != token[at] }).Draw(t, "byte")
		_, err := ticket.Check(t.Context(), ring, string(changed), now)
		require.ErrorIs(t, err, ticket.ErrInvalid)
	})
}

func FuzzCheck(f *testing.F) {
	f.Add(ticket.Sign(key, ticket.Attempt{Org: "org_a", Expires: now.Unix() + 60}))
	f.Add(".")
	f.Fuzz(func(t *testing.T, token string) {
		a, err := ticket.Check(t.Context(), ring, token, now)
		if err == nil && ticket.Sign(key, a) != token {
			require.Equal(t, "org_a", a.Org, "only what this key signed is taken")
		}
	})
}
