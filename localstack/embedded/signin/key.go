package signin

import (
	"crypto/ed25519"
	"crypto/rand"
	"path/filepath"

	"millrace/localstack/embedded/datadir"
)

// KeyFile is the file in the data directory with the signing key of tokens.
const KeyFile = "signin.key"

// loadKey reads the signing key of a data directory, or creates it.
func loadKey(dir string) (ed25519.PrivateKey, error) {
	return datadir.Key(filepath.Join(dir, KeyFile), func() (ed25519.PrivateKey, error) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	})
}
