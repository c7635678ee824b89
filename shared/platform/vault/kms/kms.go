// Package kms is the [vault.Vault] driver for AWS KMS, by envelope encryption.
// A value is encrypted with a data key of its workspace (Tink, AES-256-GCM),
// which is stored with it, wrapped by the KMS key. KMS wraps and unwraps it
// with the workspace in the encryption context, as "associatedData": the hex of
// [Context]. A value costs a KMS call only if its workspace's key is not
// cached; keys are cached for at most [Config.Lifetime].
//
// Key rotation by KMS needs no change here, and what was sealed under a multi-Region
// key opens under its replica in another region. To move to another KMS key, set
// Config.Key to it and add the previous key to Config.Retired.
package kms

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	lru "github.com/hashicorp/golang-lru/v2"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/vault"
)

// The SDK's retryer is the only layer that retries: up to 4 attempts with
// exponential backoff and jitter, at most 2 s between two attempts.
const (
	maxAttempts = 4
	maxBackoff  = 2 * time.Second
)

// Limits of cached data keys.
const (
	defaultLifetime = 5 * time.Minute
	maxKeys         = 1000
	maxUses         = 1 << 20 // values sealed with one key; AES-GCM's limit is 2^32
)

// Config selects the KMS keys and how to use them.
type Config struct {
	// Key is the ARN of the KMS key that wraps new data keys. It must not be an
	// alias, which may come to name another key.
	Key string
	// Retired are the ARNs of keys that wrapped data keys in the past.
	Retired []string
	// AWS loads region, credentials and endpoint on first use; nil means those
	// of the environment.
	AWS func(ctx context.Context) (aws.Config, error)
	// Lifetime is how long a data key may be cached, and so how long access lasts
	// after KMS has revoked it; 0 means 5 minutes.
	Lifetime time.Duration
	// Clock measures lifetimes; nil means the system clock.
	Clock clock.Clock
}

// Vault is the KMS driver. Create it with New.
type Vault struct {
	cfg     Config
	backoff time.Duration          // longest pause between attempts
	arns    map[fingerprint]string // of the KMS keys
	primary fingerprint

	sealing *lru.Cache[string, *dataKey]   // by workspace
	opening *lru.Cache[[32]byte, *dataKey] // by workspace, KMS key and wrapped key

	mu     sync.Mutex // guards the lazy client
	client *kms.Client
}

var _ vault.Vault = (*Vault)(nil)

// fingerprint identifies a KMS key in a sealed value.
type fingerprint [8]byte

// New returns a vault. It makes no request: the client is built on first use.
// Errors: vault.ErrArgument if the ARN of a key is empty.
func New(cfg Config) (*Vault, error) {
	if cfg.AWS == nil {
		cfg.AWS = awsenv.Load
	}
	if cfg.Lifetime == 0 {
		cfg.Lifetime = defaultLifetime
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	v := &Vault{cfg: cfg, backoff: maxBackoff, arns: make(map[fingerprint]string)}
	for _, arn := range append([]string{cfg.Key}, cfg.Retired...) {
		if arn == "" {
			return nil, fmt.Errorf("%w: empty ARN of a KMS key", vault.ErrArgument)
		}
		v.arns[fingerprintOf(arn)] = arn
	}
	v.primary = fingerprintOf(cfg.Key)
	var err error
	if v.sealing, err = lru.New[string, *dataKey](maxKeys); err != nil {
		return nil, err
	}
	v.opening, err = lru.New[[32]byte, *dataKey](maxKeys)
	return v, err
}

// fingerprintOf leaves the region out if the key is a multi-Region one: its replicas
// in other regions unwrap the same data keys.
func fingerprintOf(arn string) fingerprint {
	if part := strings.Split(arn, ":"); len(part) == 6 && strings.HasPrefix(part[5], multiRegion) {
		part[3] = ""
		arn = strings.Join(part, ":")
	}
	sum := sha256.Sum256([]byte(arn))
	return fingerprint(sum[:8])
}

// multiRegion is how the resource of a multi-Region key begins in its ARN.
const multiRegion = "key/mrk-"

// Seal encrypts a value with the workspace's data key.
func (v *Vault) Seal(ctx context.Context, org, name string, plaintext []byte) (vault.Sealed, error) {
	if err := errors.Join(ctx.Err(), vault.Check(org, name, len(plaintext))); err != nil {
		return nil, err
	}
	key, err := v.sealingKey(ctx, org)
	if err != nil {
		return nil, err
	}
	ciphertext, err := key.aead.Encrypt(plaintext, vault.AssociatedData("value", org, name))
	if err != nil {
		return nil, fmt.Errorf("%w: encryption failed", vault.ErrUnavailable)
	}
	return envelope{v.primary, key.wrapped, ciphertext}.encode(), nil
}

// Open decrypts a value with the data key stored in it.
func (v *Vault) Open(ctx context.Context, org, name string, sealed vault.Sealed) ([]byte, error) {
	if err := errors.Join(ctx.Err(), vault.Check(org, name, 0)); err != nil {
		return nil, err
	}
	e, err := decode(sealed)
	if err != nil {
		return nil, err
	}
	key, err := v.openingKey(ctx, org, e.kek, e.wrapped)
	if err != nil {
		return nil, err
	}
	plaintext, err := key.aead.Decrypt(e.ciphertext, vault.AssociatedData("value", org, name))
	if err != nil {
		return nil, fmt.Errorf("%w: its data key does not open it", vault.ErrRejected)
	}
	return plaintext, nil
}

// envelope is a sealed value: a format byte, the KMS key's fingerprint, the
// wrapped data key prefixed with its length in two bytes, and the ciphertext.
type envelope struct {
	kek                 fingerprint
	wrapped, ciphertext []byte
}

const format = 1

func (e envelope) encode() vault.Sealed {
	out := make(vault.Sealed, 0, 1+len(e.kek)+2+len(e.wrapped)+len(e.ciphertext))
	out = append(append(out, format), e.kek[:]...)
	out = binary.BigEndian.AppendUint16(out, uint16(len(e.wrapped)))
	return append(append(out, e.wrapped...), e.ciphertext...)
}

func decode(sealed vault.Sealed) (envelope, error) {
	var e envelope
	const header = 1 + len(e.kek) + 2
	if len(sealed) < header || sealed[0] != format {
		return e, fmt.Errorf("%w: not sealed with a KMS key", vault.ErrRejected)
	}
	e.kek = fingerprint(sealed[1:])
	n := int(binary.BigEndian.Uint16(sealed[header-2:]))
	rest := sealed[header:]
	if n == 0 || n > len(rest) {
		return e, fmt.Errorf("%w: cut short", vault.ErrRejected)
	}
	e.wrapped, e.ciphertext = rest[:n], rest[n:]
	return e, nil
}
