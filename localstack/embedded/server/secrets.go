package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"millrace/shared/ids"
)

// secretsFile holds what the server made up for its data directory, mode 0600.
const secretsFile = "secrets.json"

// secrets are the server's own keys. They never leave the data directory.
type secrets struct {
	S3AccessKey string `json:"s3_access_key"`
	S3SecretKey string `json:"s3_secret_key"`
	CursorKey   []byte `json:"cursor_key"` // signs list cursors
	// S3Address is where the object store listened last: presigned URLs name it,
	// so they hold over a restart while the port can be had again.
	S3Address string `json:"s3_address,omitempty"`
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

// save writes the file, whole or not at all.
func (s secrets) save(dir string) (err error) {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, secretsFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(dir, secretsFile))
}
