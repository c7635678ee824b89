package datadir

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"millrace/localstack/atomicfile"
)

// pemType is the type of a private key in PEM (RFC 7468, section 10).
const pemType = "PRIVATE KEY"

// Key reads a private key of type K from a file (PKCS #8 in PEM), or creates the
// file, mode 0600, with a new key. A file that holds anything else is rejected,
// not replaced.
func Key[K any](path string, create func() (K, error)) (key K, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path, create)
	}
	if err != nil {
		return key, err
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != pemType {
		return key, fmt.Errorf("%s holds no private key", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return key, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := parsed.(K)
	if !ok {
		return key, fmt.Errorf("%s holds a %T, not a %T", path, parsed, key)
	}
	return key, nil
}

func makeKey[K any](path string, create func() (K, error)) (key K, err error) {
	if key, err = create(); err != nil {
		return key, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return key, err
	}
	return key, atomicfile.Write(path, pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}))
}
