package keyfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/vault"
	"millrace/shared/platform/vault/keyfile"
	"millrace/shared/platform/vault/vaulttest"
)

// file is the path of a key file.
type file string

func newFile(t *testing.T) file { return file(filepath.Join(t.TempDir(), "vault.key")) }

func (f file) Open(t *testing.T) vault.Vault { return f.open(t) }

func (f file) open(t *testing.T) *keyfile.Vault {
	t.Helper()
	v, err := keyfile.Open(string(f))
	require.NoError(t, err)
	return v
}

func (f file) Rotate(t *testing.T) { require.NoError(t, f.open(t).Rotate()) }

func TestConformance(t *testing.T) {
	t.Parallel()
	vaulttest.Exercise(t, func(t *testing.T) vaulttest.Keys { return newFile(t) })
}

// only asserts that the file is alone in its directory and accessible only to
// its owner.
func (f file) only(t *testing.T) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(string(f)))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left behind")
	info, err := entries[0].Info()
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// TestConcurrentCreationYieldsOneKey checks that all creators get the same key.
func TestConcurrentCreationYieldsOneKey(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	vaults := make([]*keyfile.Vault, 16)
	var group sync.WaitGroup
	for i := range vaults {
		group.Go(func() {
			v, err := keyfile.Open(string(f))
			assert.NoError(t, err)
			vaults[i] = v
		})
	}
	group.Wait()
	f.only(t)
	sealed, err := vaults[0].Seal(t.Context(), "org", "name", []byte("value"))
	require.NoError(t, err)
	for _, v := range vaults {
		_, err := v.Open(t.Context(), "org", "name", sealed)
		require.NoError(t, err)
	}
}

func TestRotatesWhileInUse(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	v := f.open(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { assert.NoError(t, v.Rotate()) })
		group.Go(func() {
			for range 50 {
				sealed, err := v.Seal(t.Context(), "org", "name", []byte("value"))
				assert.NoError(t, err)
				got, err := v.Open(t.Context(), "org", "name", sealed)
				assert.NoError(t, err)
				assert.Equal(t, "value", string(got))
			}
		})
	}
	group.Wait()
	f.only(t)
	data, err := os.ReadFile(string(f))
	require.NoError(t, err)
	assert.Equal(t, 5, strings.Count(string(data), `"keyId"`), "no rotation is lost")
}

func TestRefusesWidePermissions(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o644, 0o777, 0o610} {
		f := newFile(t)
		v := f.open(t)
		require.NoError(t, os.Chmod(string(f), mode))
		_, err := keyfile.Open(string(f))
		require.ErrorContains(t, err, "make it 0600", "%o", mode)
		require.ErrorContains(t, v.Rotate(), "make it 0600")
	}
	f := newFile(t)
	f.open(t)
	require.NoError(t, os.Chmod(string(f), 0o400))
	f.open(t)
}

func TestRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{}", "no JSON but secret", `{"primaryKeyId":1,"key":[]}`, `{"primaryKeyId":1,"key":[{"keyId":1}]}`} {
		f := newFile(t)
		require.NoError(t, os.WriteFile(string(f), []byte(content), 0o600))
		_, err := keyfile.Open(string(f))
		require.Error(t, err, content)
		assert.NotContains(t, err.Error(), "secret")
		data, err := os.ReadFile(string(f))
		require.NoError(t, err)
		assert.Equal(t, content, string(data), "it is left as it was")
	}
	_, err := keyfile.Open(t.TempDir())
	require.ErrorContains(t, err, "no regular file")
	_, err = keyfile.Open(filepath.Join(t.TempDir(), "absent", "vault.key"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestErrorsDoNotQuoteKeys checks that no error contains the key.
func TestErrorsDoNotQuoteKeys(t *testing.T) {
	t.Parallel()
	f := newFile(t)
	f.open(t)
	data, err := os.ReadFile(string(f))
	require.NoError(t, err)
	_, key, found := strings.Cut(string(data), `"value":"`)
	require.True(t, found)
	key, _, _ = strings.Cut(key, `"`)
	broken := strings.Replace(string(data), `"keyId"`, `"key`, 1)
	require.NoError(t, os.WriteFile(string(f), []byte(broken), 0o600))
	_, err = keyfile.Open(string(f))
	require.Error(t, err)
	assert.NotContains(t, err.Error(), key)
}
