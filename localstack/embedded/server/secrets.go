package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"millrace/localstack/atomicfile"
	"millrace/localstack/embedded/datadir"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/signature"
)

// secretsFile stores the keys generated for a data directory, mode 0600.
const secretsFile = "secrets.json"

// vaultFile stores the keys that seal the values of workspaces' secrets.
const vaultFile = "vault.key"

// signingFile stores the key that signs the digests of audit logs.
const signingFile = "signing.key"

// secrets are the server's keys. They never leave the data directory.
type secrets struct {
	S3AccessKey string `json:"s3_access_key"`
	S3SecretKey string `json:"s3_secret_key"`
	CursorKey   []byte `json:"cursor_key"` // signs list cursors
	// PreviousCursorKey is the one before the last rotation. What it signed is
	// accepted.
	PreviousCursorKey []byte `json:"previous_cursor_key,omitempty"`
	// MadeAt is when the cursors' key, and the one that seals the values of
	// workspaces' secrets, were made.
	MadeAt time.Time `json:"keys_made_at,omitzero"`
	// S3Address is the last address of the object store. Presigned URLs contain
	// it, so they stay valid after a restart while the port is available.
	S3Address string `json:"s3_address,omitempty"`
}

// openSigner returns the signer of a data directory, whose key it creates if
// there is none.
func openSigner(dir string) (*signature.Local, error) {
	key, err := datadir.Key(filepath.Join(dir, signingFile), signature.NewKey)
	if err != nil {
		return nil, err
	}
	return signature.NewLocal(key)
}

// hasSecrets reports whether a server has opened the store of a data directory
// before, because it creates the secrets afterwards.
func hasSecrets(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, secretsFile))
	return err == nil
}

// loadSecrets reads the secrets of a data directory, or creates them.
func loadSecrets(dir string) (secrets, error) {
	var s secrets
	data, err := os.ReadFile(filepath.Join(dir, secretsFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s = secrets{S3AccessKey: "millrace" + ids.Token(6), S3SecretKey: ids.Token(30), CursorKey: make([]byte, 32), MadeAt: time.Now().UTC()}
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

// madeAt returns when the keys were made that RotateKeys replaces. A directory of
// an earlier version has no record of it, but that of the file of the sealing keys,
// which only a rotation writes.
func (s secrets) madeAt(dir string) time.Time {
	if s.MadeAt.IsZero() {
		if info, err := os.Stat(filepath.Join(dir, vaultFile)); err == nil {
			return info.ModTime()
		}
	}
	return s.MadeAt
}

// save writes the file.
func (s secrets) save(dir string) error {
	return atomicfile.WriteJSON(filepath.Join(dir, secretsFile), s)
}
