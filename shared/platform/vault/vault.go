// Package vault is the port to what keeps secret values secret: it seals a
// value for one workspace and one name, and opens it for these alone. Sealed
// values are kept in the table. Drivers: package kms, with keys that AWS KMS
// wraps, and package keyfile, with a key in a file; package vaulttest is the
// suite both pass.
//
// No error of a vault holds a value or key material.
package vault

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// MaxValue is how many bytes a value may have.
const MaxValue = 64 << 10

// The errors of every driver; wrapped, with what is known besides.
var (
	// ErrRefused: the value was not sealed for this workspace and name by this
	// vault, or was changed since. It will never open.
	ErrRefused = errors.New("vault: sealed value refused")
	// ErrUnavailable: the key cannot be used now, for the vault cannot be
	// reached, denies it, or is not configured with the key.
	ErrUnavailable = errors.New("vault: key not available")
	// ErrArgument: no workspace, no name, or a value over MaxValue.
	ErrArgument = errors.New("vault: invalid argument")
)

// Sealed is a value that its vault alone can open: the driver's own format, up
// to about 1 KB larger than the value. It is no secret.
type Sealed []byte

// masked is how a sealed value is shown.
const masked = "***"

// MarshalJSON hides the value: in views, audit entries and logs it is "***".
func (Sealed) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// String hides the value.
func (Sealed) String() string { return masked }

// Vault is the port. It is safe for concurrent use.
type Vault interface {
	// Seal encrypts a value, of 0 to MaxValue bytes, for a workspace and a
	// name. Sealing the same value again gives other bytes. Errors:
	// ErrArgument, ErrUnavailable, and that of an ended ctx.
	Seal(ctx context.Context, org, name string, plaintext []byte) (Sealed, error)

	// Open returns the value. Errors: ErrRefused, and as for Seal.
	Open(ctx context.Context, org, name string, sealed Sealed) ([]byte, error)
}

// Check returns ErrArgument, wrapped with which, for what no vault seals or
// opens. size is that of the value, 0 for Open.
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

// AssociatedData binds a ciphertext to a purpose and what it is for, each part
// with its length, so that no two lists of parts give the same bytes.
func AssociatedData(purpose string, parts ...string) []byte {
	data := append([]byte("millrace/vault/"), purpose...)
	data = append(data, 0)
	for _, part := range parts {
		data = binary.AppendUvarint(data, uint64(len(part)))
		data = append(data, part...)
	}
	return data
}
