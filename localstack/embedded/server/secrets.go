package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"millrace/localstack/embedded/datadir"
	"millrace/shared/platform/ids"
)

// secretsFile holds what the server made up for its data directory, mode 0600.
const secretsFile = "secrets.json"

// vaultFile holds the keys that seal the values of workspaces' secrets.
const vaultFile = "vault.key"

// secrets are the server's own keys. They never leave the data directory.
type secrets struct {
	S3AccessKey string `json:"s3_access_key"`
	S3SecretKey string `json:"s3_secret_key"`
	CursorKey   []byte `json:"cursor_key"` // signs list cursors
	// S3Address is where the object store listened last: presigned URLs name it,
	// so they hold over a restart while the port can be had again.
	S3Address string `json:"s3_address,omitempty"`
}

// hasSecrets tells whether a server has opened the store of a data directory before,
// for it makes the secrets afterwards.
func hasSecrets(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, secretsFile))
	return err == nil
}

// loadSecrets reads the secrets of a data directory, or makes them.
func loadSecrets(dir string) (secrets, error) {
	var s secrets
	data, err := os.ReadFile(filepath.Join(dir, secretsFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s = secrets{S3AccessKey: "millrace" + ids.Token(6), S3SecretKey: ids.Token(30), CursorKey: make([]byte, 32)}
		_, _ = rand.Read(s.CursorKey) // never fails
		return s, s.save(dir)
	case err != nil:
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: %w", secretsFile, err)
	}
	if s.S3AccessKey == "" || s.S3SecretKey == "" || len(s.CursorKey) < 16 {
		return s, fmt.Errorf("%s lacks a key: restore it, or remove it to have new ones made", secretsFile)
	}
	return s, nil
}

// save writes the file.
func (s secrets) save(dir string) error { return datadir.WriteJSON(filepath.Join(dir, secretsFile), s) }
