// Package signature is the port to the service's signing key. What it signs,
// anybody who has the public key can verify, without the service: ECDSA on the
// curve P-256 with SHA-256 (FIPS 186-5), in ASN.1 form, as `openssl dgst -sha256
// -verify` reads it. The drivers are package kms, whose private key never leaves
// AWS KMS, and [Local], whose private key is in the process. Package
// signaturetest is the conformance suite of both.
package signature

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// Algorithm names the algorithm as AWS KMS does.
const Algorithm = "ECDSA_SHA_256"

// MaxMessage is the largest message in bytes, KMS's limit.
const MaxMessage = 4096

// Errors, wrapped with details.
var (
	// ErrArgument means an empty message or one over MaxMessage.
	ErrArgument = errors.New("signature: invalid argument")
	// ErrUnavailable means that the key cannot be used now: the key service cannot
	// be reached, denies access, or holds no key of this kind.
	ErrUnavailable = errors.New("signature: key not available")
)

// Signature is a signature and the key that made it.
type Signature struct {
	KeyID string `table:"key_id" json:"key_id"` // PublicKey.ID
	Value []byte `table:"value" json:"value"`   // in ASN.1
}

// Signer is the port. It is safe for concurrent use.
type Signer interface {
	// Sign signs a message of 1 to MaxMessage bytes. Two signatures of one message
	// differ. Errors: ErrArgument, ErrUnavailable, and that of an ended ctx.
	Sign(ctx context.Context, message []byte) (Signature, error)
	// PublicKey returns the key that verifies what Sign signs. Errors: as for Sign.
	PublicKey(ctx context.Context) (PublicKey, error)
}

// PublicKey verifies signatures.
type PublicKey struct {
	key *ecdsa.PublicKey
	der []byte
}

// pemType is the type of a public key in PEM (RFC 7468, section 13).
const pemType = "PUBLIC KEY"

// ParsePublicKey reads a public key in DER (SubjectPublicKeyInfo).
func ParsePublicKey(der []byte) (PublicKey, error) {
	parsed, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return PublicKey{}, fmt.Errorf("signature: public key: %w", err)
	}
	key, ok := parsed.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return PublicKey{}, fmt.Errorf("signature: public key: %T is not a key on the curve P-256", parsed)
	}
	return PublicKey{key, der}, nil
}

// ParsePEM reads a public key in PEM, as PublicKey.PEM writes it.
func ParsePEM(text []byte) (PublicKey, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != pemType {
		return PublicKey{}, errors.New("signature: no public key in PEM")
	}
	return ParsePublicKey(block.Bytes)
}

// PEM returns the key in PEM.
func (k PublicKey) PEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: k.der}))
}

// ID returns the hex SHA-256 of the key in DER.
func (k PublicKey) ID() string {
	sum := sha256.Sum256(k.der)
	return hex.EncodeToString(sum[:])
}

// Signed reports whether a signature is that of this key and the message.
func (k PublicKey) Signed(message []byte, s Signature) bool {
	sum := sha256.Sum256(message)
	return s.KeyID == k.ID() && ecdsa.VerifyASN1(k.key, sum[:], s.Value)
}

// Local is the driver whose private key is in the process.
type Local struct {
	private *ecdsa.PrivateKey
	public  PublicKey
}

var _ Signer = (*Local)(nil)

// NewKey returns a new private key for NewLocal.
func NewKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// NewLocal returns a signer with a private key on the curve P-256.
func NewLocal(key *ecdsa.PrivateKey) (*Local, error) {
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("signature: %w", err)
	}
	public, err := ParsePublicKey(der)
	return &Local{key, public}, err
}

// Check returns ErrArgument, wrapped with the reason, for a message that Sign
// does not take.
func Check(message []byte) error {
	if len(message) == 0 || len(message) > MaxMessage {
		return fmt.Errorf("%w: message of %d bytes, 1 to %d allowed", ErrArgument, len(message), MaxMessage)
	}
	return nil
}

// Sign signs a message.
func (l *Local) Sign(ctx context.Context, message []byte) (Signature, error) {
	if err := errors.Join(ctx.Err(), Check(message)); err != nil {
		return Signature{}, err
	}
	sum := sha256.Sum256(message)
	value, err := ecdsa.SignASN1(rand.Reader, l.private, sum[:])
	if err != nil {
		return Signature{}, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return Signature{l.public.ID(), value}, nil
}

// PublicKey returns the public part of the key.
func (l *Local) PublicKey(ctx context.Context) (PublicKey, error) { return l.public, ctx.Err() }
