// Package vaulttest is the conformance suite of package vault. Every driver
// passes it with its own factory.
package vaulttest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/vault"
)

// Keys are the keys of one vault.
type Keys interface {
	// Open returns a new vault with the keys, as a starting process would.
	Open(t *testing.T) vault.Vault
	// Rotate creates a new key, which seals after the next Open.
	Rotate(t *testing.T)
}

// NewKeys creates keys that nothing else uses.
type NewKeys func(t *testing.T) Keys

const (
	org   = "org_1"
	name  = "DB_PASSWORD"
	value = "correct horse battery staple"
)

var cases = []struct {
	name string
	run  func(t *testing.T, newKeys NewKeys)
}{
	{"RoundTrip", roundTrip},
	{"Sizes", sizes},
	{"Arguments", arguments},
	{"OtherOwner", otherOwner},
	{"OtherKeys", otherKeys},
	{"Tampered", tampered},
	{"NotSealed", notSealed},
	{"Restart", restart},
	{"Rotation", rotation},
	{"Concurrency", concurrency},
	{"EndedContext", endedContext},
}

// Exercise runs the suite.
func Exercise(t *testing.T, newKeys NewKeys) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, newKeys)
		})
	}
}

func seal(t *testing.T, v vault.Vault, plaintext string) vault.Sealed {
	t.Helper()
	sealed, err := v.Seal(t.Context(), org, name, []byte(plaintext))
	require.NoError(t, err)
	return sealed
}

func opens(t *testing.T, v vault.Vault, sealed vault.Sealed, want string) {
	t.Helper()
	got, err := v.Open(t.Context(), org, name, sealed)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// assertRejected asserts that a value does not open, and that the error does not
// contain it.
func assertRejected(t *testing.T, v vault.Vault, org, name string, sealed vault.Sealed) {
	t.Helper()
	got, err := v.Open(t.Context(), org, name, sealed)
	require.ErrorIs(t, err, vault.ErrRejected)
	require.Empty(t, got)
	require.NotContains(t, err.Error(), value)
}

func roundTrip(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	plaintext := []byte(value)
	first, err := v.Seal(t.Context(), org, name, plaintext)
	require.NoError(t, err)
	require.Equal(t, value, string(plaintext), "the argument is left alone")
	clear(plaintext) // the vault must not have kept it
	kept := slices.Clone(first)
	opens(t, v, first, value)
	assert.Equal(t, kept, first)
	assert.False(t, bytes.Contains(first, []byte(value)))
	second := seal(t, v, value)
	assert.NotEqual(t, first, second, "equal values do not show")
	opens(t, v, second, value)
}

func sizes(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	for _, size := range []int{0, 1, 15, 16, 17, 4096, 4097, vault.MaxValue} {
		plaintext := strings.Repeat("x", size)
		sealed := seal(t, v, plaintext)
		opens(t, v, sealed, plaintext)
		assert.LessOrEqual(t, len(sealed), size+1024)
	}
	sealed, err := v.Seal(t.Context(), org, name, nil)
	require.NoError(t, err)
	opens(t, v, sealed, "")
}

func arguments(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	sealed := seal(t, v, value)
	for _, owner := range [][2]string{{"", name}, {org, ""}} {
		_, err := v.Seal(t.Context(), owner[0], owner[1], []byte(value))
		require.ErrorIs(t, err, vault.ErrArgument)
		_, err = v.Open(t.Context(), owner[0], owner[1], sealed)
		require.ErrorIs(t, err, vault.ErrArgument)
	}
	_, err := v.Seal(t.Context(), org, name, []byte(strings.Repeat("x", vault.MaxValue+1)))
	require.ErrorIs(t, err, vault.ErrArgument)
	assert.NotContains(t, err.Error(), "xx")
}

func otherOwner(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	sealed := seal(t, v, value)
	_, err := v.Seal(t.Context(), "org_2", name, []byte("theirs")) // theirs has its own data key by now
	require.NoError(t, err)
	for _, owner := range [][2]string{
		{"org_2", name}, {org, "OTHER"}, {org, "db_password"}, {"org_1D", "B_PASSWORD"}, {"org_", "1DB_PASSWORD"}, {name, org},
	} {
		assertRejected(t, v, owner[0], owner[1], sealed)
	}
	opens(t, v, sealed, value)
}

func otherKeys(t *testing.T, newKeys NewKeys) {
	v, other := newKeys(t).Open(t), newKeys(t).Open(t)
	got, err := other.Open(t.Context(), org, name, seal(t, v, value))
	require.Error(t, err)
	assert.Empty(t, got)
}

// tampered changes every byte in turn, and truncates and extends the value.
func tampered(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	sealed := seal(t, v, value)
	step := max(1, len(sealed)/64) // a changed wrapped key costs a KMS call
	refusedOrUnknown := func(changed vault.Sealed, what string) {
		t.Helper()
		got, err := v.Open(t.Context(), org, name, changed)
		require.Error(t, err, what)
		require.Empty(t, got)
		require.NotContains(t, err.Error(), value)
	}
	for i := 0; i < len(sealed); i += step {
		changed := slices.Clone(sealed)
		changed[i] ^= 1
		refusedOrUnknown(changed, fmt.Sprintf("byte %d of %d", i, len(sealed)))
	}
	for cut := 1; cut <= len(sealed); cut += step {
		refusedOrUnknown(sealed[:len(sealed)-cut], "cut")
	}
	last := slices.Clone(sealed)
	last[len(last)-1] ^= 1
	assertRejected(t, v, org, name, last)
	assertRejected(t, v, org, name, append(slices.Clone(sealed), 0))
	opens(t, v, sealed, value)
}

func notSealed(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	for _, sealed := range []vault.Sealed{nil, {}, {0}, {1}, {2}, {255}, []byte(value), bytes.Repeat([]byte{255}, 100)} {
		assertRejected(t, v, org, name, sealed)
	}
}

func restart(t *testing.T, newKeys NewKeys) {
	keys := newKeys(t)
	sealed := seal(t, keys.Open(t), value)
	opens(t, keys.Open(t), sealed, value)
}

func rotation(t *testing.T, newKeys NewKeys) {
	keys := newKeys(t)
	running := keys.Open(t)
	generations := []vault.Sealed{seal(t, running, value)}
	for range 3 {
		keys.Rotate(t)
		v := keys.Open(t)
		generations = append(generations, seal(t, v, value))
		for _, sealed := range generations {
			opens(t, v, sealed, value)
		}
		assertRejected(t, v, "org_2", name, generations[0])
	}
	opens(t, running, generations[0], value)
}

func concurrency(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 25 {
				owner := fmt.Sprintf("org_%d", (g+i)%3)
				plaintext := fmt.Sprintf("%d of %d", i, g)
				sealed, err := v.Seal(t.Context(), owner, name, []byte(plaintext))
				if !assert.NoError(t, err) {
					return
				}
				got, err := v.Open(t.Context(), owner, name, sealed)
				assert.NoError(t, err)
				assert.Equal(t, plaintext, string(got))
			}
		})
	}
	group.Wait()
}

func endedContext(t *testing.T, newKeys NewKeys) {
	v := newKeys(t).Open(t)
	sealed := seal(t, v, value)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := v.Seal(ctx, org, name, []byte(value))
	require.ErrorIs(t, err, context.Canceled)
	_, err = v.Open(ctx, org, name, sealed)
	require.ErrorIs(t, err, context.Canceled)
}
