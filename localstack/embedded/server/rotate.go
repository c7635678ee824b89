package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"millrace/localstack/embedded/datadir"
	"millrace/shared/platform/vault/keyfile"
)

// RotateKeys makes new keys of a data directory that no server uses: one that
// signs the cursors of lists, and one that seals the values of secrets. What
// was signed with the cursors' key before stays valid until the next rotation,
// and what was sealed stays readable. Errors: ErrInUse; a directory that no
// server has used.
func RotateKeys(dir, version string) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	if !hasSecrets(dir) {
		return fmt.Errorf("%s: no server has used this data directory", dir)
	}
	d, err := datadir.Open(dir, version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	keys, err := loadSecrets(dir)
	if err != nil {
		return err
	}
	sealing, err := keyfile.Open(filepath.Join(dir, vaultFile))
	if err != nil {
		return err
	}
	keys.PreviousCursorKey, keys.CursorKey = keys.CursorKey, make([]byte, 32)
	_, _ = rand.Read(keys.CursorKey) // never fails
	keys.MadeAt = time.Now().UTC()
	if err := keys.save(dir); err != nil {
		return err
	}
	return sealing.Rotate()
}
