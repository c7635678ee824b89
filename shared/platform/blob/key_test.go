package blob_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/blob"
)

func TestValidateKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 255)
	for _, key := range []string{
		"org/a", "org/a/b/c", "org/.hidden", "org/a b", "org/ünï", "org/a..b", "org/...", "org/%2e%2e", "org/" + long,
		strings.Repeat("k/", 511) + "kk", // 1024 bytes
	} {
		assert.NoError(t, blob.ValidateKey(key), key)
	}
	for _, key := range []string{
		"", "org", "org/", "/org/a", "org//a", "org/a/", "..", "../a", "org/..", "org/../other/a", "org/./a", "org/a/..",
		".sgwtmp/a", "./a", "org/a\x00", "org/a\n", "org/a\x7f", "org/\u0085", `org\a/b`, `org/..\file`, "org/\xff", "org/\uffff",
		"org/k" + long, strings.Repeat("k/", 511) + "kkk",
	} {
		assert.ErrorIs(t, blob.ValidateKey(key), blob.ErrKey, "%q", key)
	}
}

func TestKey(t *testing.T) {
	t.Parallel()
	key, err := blob.Key("org", "artifacts", "flow.zip")
	require.NoError(t, err)
	assert.Equal(t, "org/artifacts/flow.zip", key)
	for _, parts := range [][]string{{"org"}, {"", "a"}, {"org", ""}, {"org", ".."}, {"org", "a/b"}, {"org/x", "a"}, {"org", "a", "\n"}} {
		_, err := blob.Key(parts[0], parts[1:]...)
		assert.ErrorIs(t, err, blob.ErrKey, "%q", parts)
	}
}

// FuzzKey checks that a key stays in its workspace, whatever its path.
func FuzzKey(f *testing.F) {
	for _, seed := range []string{"a", "..", "../../x", "a/../../b", "", "\x00", `..\`, "%2e%2e/", "é"} {
		f.Add("org", seed)
	}
	f.Fuzz(func(t *testing.T, org, name string) {
		key, err := blob.Key(org, name)
		if err != nil {
			require.ErrorIs(t, err, blob.ErrKey)
			return
		}
		prefix, rest, _ := strings.Cut(key, "/")
		assert.Equal(t, org, prefix)
		assert.Equal(t, name, rest)
		assert.NotContains(t, rest, "/")
		assert.NotContains(t, []string{"", ".", ".."}, rest)
		assert.LessOrEqual(t, len(key), blob.MaxKeyBytes)
		assert.False(t, strings.ContainsFunc(key, unicode.IsControl))
	})
}

func TestDeleteErrorNamesKeys(t *testing.T) {
	t.Parallel()
	err := &blob.DeleteError{Keys: []string{"org/a", "org/b"}, Cause: blob.ErrNotConfigured}
	assert.EqualError(t, err, "delete objects org/a, org/b: object store is not configured")
	assert.ErrorIs(t, err, blob.ErrNotConfigured)
	err.Keys = strings.Split(strings.Repeat("k", 25), "")
	assert.ErrorContains(t, err, "and 15 more")
}
