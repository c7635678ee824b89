// Package vault is the port to the encryption of secret values. It seals a
// value for one workspace and one name, and opens it only for these. Sealed
// values are stored in the table. The drivers are package kms, with keys
// wrapped by AWS KMS, and package keyfile, with a key in a file. Package
// vaulttest is the conformance suite of both.
//
// No error of a vault contains a value or key material.
package vault

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxValue is the largest value in bytes.
const MaxValue = 64 << 10

// Errors that every driver returns, wrapped with details.
var (
	// ErrRejected means that the value was not sealed by this vault for this
	// workspace and name, or was changed since. It will never open.
	ErrRejected = errors.New("vault: sealed value rejected")
	// ErrUnavailable means that the key cannot be used now: the key service cannot
	// be reached, denies access, or the key is not configured.
	ErrUnavailable = errors.New("vault: key not available")
	// ErrArgument means no workspace, no name, or a value over MaxValue.
	ErrArgument = errors.New("vault: invalid argument")
)

// Sealed is a value that only its vault can open, in the driver's own format,
// up to about 1 KB larger than the value. It is not secret.
type Sealed []byte

// masked replaces a sealed value in output.
const masked = "***"

// MarshalJSON returns "***", so that views, audit entries and logs hide the
// value.
func (Sealed) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// String returns "***".
func (Sealed) String() string { return masked }

// Vault is the port. It is safe for concurrent use.
type Vault interface {
	// Seal encrypts a value of 0 to MaxValue bytes for a workspace and a name.
	// Sealing the same value again gives different bytes. Errors: ErrArgument,
	// ErrUnavailable, and that of an ended ctx.
	Seal(ctx context.Context, org, name string, plaintext []byte) (Sealed, error)

	// Open returns the value. Errors: ErrRejected, and as for Seal.
	Open(ctx context.Context, org, name string, sealed Sealed) ([]byte, error)
}

// Check returns ErrArgument, wrapped with the reason, for invalid arguments of
// Seal and Open. size is that of the value, 0 for Open.
func Check(org, name string, size int) error {
	switch {
	case org == "":
		return fmt.Errorf("%w: no workspace", ErrArgument)
	case name == "":
		return fmt.Errorf("%w: no name", ErrArgument)
	case size > MaxValue:
		return fmt.Errorf("%w: value of %d bytes, %d allowed", ErrArgument, size, MaxValue)
	}
	return nil
}

// AssociatedData binds a ciphertext to a purpose and its owner. Each part is
// prefixed with its length, so that different parts never give the same bytes.
func AssociatedData(purpose string, parts ...string) []byte {
	data := append([]byte("millrace/vault/"), purpose...)
	data = append(data, 0)
	for _, part := range parts {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}
