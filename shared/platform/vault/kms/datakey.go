package kms

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	"github.com/tink-crypto/tink-go/v2/tink"

	"millrace/shared/platform/vault"
)

// dataKey is a workspace's data key in memory.
type dataKey struct {
	aead    tink.AEAD
	wrapped []byte
	until   time.Time
	uses    atomic.Int64 // number of values sealed
}

// sealingKey returns the data key that seals for a workspace, a new one if
// there is none in memory or it has been used long enough. Two callers may
// create one each; the later one is kept, and both open.
func (v *Vault) sealingKey(ctx context.Context, org string) (*dataKey, error) {
	now := v.cfg.Clock.Now()
	if key, ok := v.sealing.Get(org); ok && now.Before(key.until) && key.uses.Add(1) <= maxUses {
		return key, nil
	}
	handle, err := keyset.NewHandle(aead.AES256GCMKeyTemplate())
	if err != nil {
		return nil, fmt.Errorf("%w: a data key could not be made", vault.ErrUnavailable)
	}
	kek, _, err := v.kek(ctx, v.primary)
	if err != nil {
		return nil, err
	}
	var plain bytes.Buffer
	if err := insecurecleartextkeyset.Write(handle, keyset.NewBinaryWriter(&plain)); err != nil {
		return nil, fmt.Errorf("%w: a data key could not be written", vault.ErrUnavailable)
	}
	defer clear(plain.Bytes())
	wrapped, err := kek.wrap(ctx, org, plain.Bytes())
	if err != nil {
		return nil, err
	}
	if len(wrapped) > math.MaxUint16 {
		return nil, fmt.Errorf("%w: a wrapped data key of %d bytes", vault.ErrUnavailable, len(wrapped))
	}
	key, err := v.newKey(handle, wrapped, now)
	if err != nil {
		return nil, err
	}
	key.uses.Store(1)
	v.sealing.Add(org, key)
	v.opening.Add(cacheKey(org, v.primary, wrapped), key)
	return key, nil
}

// openingKey unwraps a data key of a workspace.
func (v *Vault) openingKey(ctx context.Context, org string, id fingerprint, wrapped []byte) (*dataKey, error) {
	now, at := v.cfg.Clock.Now(), cacheKey(org, id, wrapped)
	if key, ok := v.opening.Get(at); ok && now.Before(key.until) {
		return key, nil
	}
	kek, known, err := v.kek(ctx, id)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("%w: sealed under a KMS key that is not configured", vault.ErrUnavailable)
	}
	plain, err := kek.unwrap(ctx, org, wrapped)
	if err != nil {
		return nil, err
	}
	defer clear(plain)
	handle, err := insecurecleartextkeyset.Read(keyset.NewBinaryReader(bytes.NewReader(plain)))
	if err != nil {
		return nil, fmt.Errorf("%w: what KMS unwrapped is no data key", vault.ErrRejected)
	}
	key, err := v.newKey(handle, wrapped, now)
	if err != nil {
		return nil, err
	}
	v.opening.Add(at, key)
	return key, nil
}

func (v *Vault) newKey(handle *keyset.Handle, wrapped []byte, now time.Time) (*dataKey, error) {
	primitive, err := aead.New(handle)
	if err != nil {
		return nil, fmt.Errorf("%w: not a data key", vault.ErrRejected)
	}
	return &dataKey{aead: primitive, wrapped: bytes.Clone(wrapped), until: now.Add(v.cfg.Lifetime)}, nil
}

// cacheKey returns the cache key of an unwrapped data key. It includes the
// workspace, because KMS authorised the key for that workspace.
func cacheKey(org string, id fingerprint, wrapped []byte) [32]byte {
	b := binary.AppendUvarint(nil, uint64(len(org)))
	b = append(append(append(b, org...), id[:]...), wrapped...)
	return sha256.Sum256(b)
}
