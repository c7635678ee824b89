// Package keyfile is the [vault.Vault] driver for a server on one machine: a
// Tink keyset of AES-256-GCM keys in a file that only its owner can read.
// Losing the file loses every value; a copy of the file opens them all.
package keyfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"millrace/shared/platform/vault"
)

// format is the first byte of values sealed by this driver.
const format = 2

// maxFile is an upper bound of a keyset's size in bytes.
const maxFile = 1 << 20

// wide are the permissions that the file must not have.
const wide = 0o077

// Vault is the key file driver. Create it with Open.
type Vault struct {
	path string

	rotating sync.Mutex
	mu       sync.RWMutex // guards keys
	keys     tink.AEAD
}

var _ vault.Vault = (*Vault)(nil)

// Open reads the keyset at path, or creates it atomically without replacing
// another process's. It rejects a file that users other than its owner may
// access (on systems with such permissions) and one that is not a keyset.
func Open(path string) (*Vault, error) {
	handle, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := create(path); err != nil {
			return nil, fmt.Errorf("vault: make key file: %w", err)
		}
		handle, err = read(path) // another process may have created it
	}
	if err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	v := &Vault{path: path}
	return v, v.use(handle)
}

func (v *Vault) use(handle *keyset.Handle) error {
	keys, err := aead.New(handle)
	if err != nil {
		return fmt.Errorf("vault: key file %s: no keys to seal with", v.path)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys = keys
	return nil
}

func (v *Vault) aead() tink.AEAD {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.keys
}

// Seal encrypts a value with the primary key.
func (v *Vault) Seal(ctx context.Context, org, name string, plaintext []byte) (vault.Sealed, error) {
	if err := errors.Join(ctx.Err(), vault.Check(org, name, len(plaintext))); err != nil {
		return nil, err
	}
	ciphertext, err := v.aead().Encrypt(plaintext, vault.AssociatedData("value", org, name))
	if err != nil {
		return nil, fmt.Errorf("%w: encryption failed", vault.ErrUnavailable)
	}
	return append(vault.Sealed{format}, ciphertext...), nil
}

// Open decrypts a value with the key that sealed it.
func (v *Vault) Open(ctx context.Context, org, name string, sealed vault.Sealed) ([]byte, error) {
	if err := errors.Join(ctx.Err(), vault.Check(org, name, 0)); err != nil {
		return nil, err
	}
	if len(sealed) == 0 || sealed[0] != format {
		return nil, fmt.Errorf("%w: not sealed with a key file", vault.ErrRejected)
	}
	plaintext, err := v.aead().Decrypt(sealed[1:], vault.AssociatedData("value", org, name))
	if err != nil {
		return nil, fmt.Errorf("%w: no key opens it", vault.ErrRejected)
	}
	return plaintext, nil
}

// Rotate adds a key that seals from now on; older keys still open. The file is
// replaced atomically. No other process may rotate it at the same time.
func (v *Vault) Rotate() error {
	v.rotating.Lock()
	defer v.rotating.Unlock()
	handle, err := read(v.path)
	if err != nil {
		return fmt.Errorf("vault: rotate: %w", err)
	}
	manager := keyset.NewManagerFromHandle(handle)
	id, err := manager.Add(aead.AES256GCMKeyTemplate())
	if err == nil {
		err = manager.SetPrimary(id)
	}
	if err != nil {
		return fmt.Errorf("vault: rotate: %w", err)
	}
	if handle, err = manager.Handle(); err != nil {
		return fmt.Errorf("vault: rotate: %w", err)
	}
	if err := write(v.path, handle, os.Rename); err != nil {
		return fmt.Errorf("vault: rotate: %w", err)
	}
	return v.use(handle)
}

// read reads a keyset. Its errors do not quote the file's content.
func read(path string) (*keyset.Handle, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("key file %s is no regular file", path)
	case runtime.GOOS != "windows" && info.Mode().Perm()&wide != 0:
		return nil, fmt.Errorf("key file %s has mode %04o: others than its owner may touch it, make it 0600", path, info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	defer clear(data)
	handle, err := insecurecleartextkeyset.Read(keyset.NewJSONReader(bytes.NewReader(data)))
	if err != nil {
		return nil, fmt.Errorf("key file %s holds no keyset", path)
	}
	return handle, nil
}

// create creates the file with one key, unless it exists by now.
func create(path string) error {
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return err
	}
	// Unlike a rename, a link does not replace a file.
	err = write(path, handle, func(from, to string) error {
		return errors.Join(os.Link(from, to), os.Remove(from))
	})
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// write writes a file that only its owner can read, moves it to path, and
// returns once it is on disk.
func write(path string, handle *keyset.Handle, rename func(from, to string) error) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	err = insecurecleartextkeyset.Write(handle, keyset.NewJSONWriter(f))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" { // where directories cannot be synced
		err = d.Sync()
	}
	return errors.Join(err, d.Close())
}
