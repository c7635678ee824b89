package identity

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSecretsAreLongValidAndDistinct(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		s := newSecret(KeyPrefix)
		require.Len(t, s, 53)
		require.True(t, strings.HasPrefix(s, "svc_"))
		require.True(t, validSecret(KeyPrefix, s))
		require.False(t, seen[s])
		seen[s] = true
	}
}

func TestSecretWithOneChangedCharacterIsInvalid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := []byte(newSecret(KeyPrefix))
		i := rapid.IntRange(0, len(s)-1).Draw(t, "at")
		c := rapid.Byte().Filter(func(b byte) bool { return b != s[i] }).Draw(t, "char")
		s[i] = c
		assert.False(t, validSecret(KeyPrefix, string(s)))
	})
}

func FuzzValidSecret(f *testing.F) {
	f.Add("svc_")
	f.Add(newSecret(KeyPrefix))
	f.Add(strings.Repeat("é", 30))
	f.Fuzz(func(t *testing.T, s string) {
		if validSecret(KeyPrefix, s) && len(s) != 53 {
			t.Fatalf("%q passes", s)
		}
	})
}

func TestHashIsNotTheSecret(t *testing.T) {
	t.Parallel()
	s := newSecret(KeyPrefix)
	assert.Len(t, hashSecret(s), 64)
	assert.NotContains(t, hashSecret(s), s[4:])
	assert.Equal(t, hashSecret(s), hashSecret(s))
	assert.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", hashSecret("abc"))
}
