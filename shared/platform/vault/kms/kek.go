package kms

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"millrace/shared/platform/awsretry"
	"millrace/shared/platform/vault"
)

// kek is a KMS key: a key encryption key. What it wraps is what Tink's KMS client
// wraps.
type kek struct {
	client *kms.Client
	arn    string
}

// kek returns a KMS key. ok is false if it is not configured.
func (v *Vault) kek(ctx context.Context, id fingerprint) (key kek, ok bool, err error) {
	arn, ok := v.arns[id]
	if !ok {
		return kek{}, false, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.client == nil {
		// The client outlives the first caller, so its cancellation must not apply.
		base, err := v.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return kek{}, true, fmt.Errorf("%w: %w", vault.ErrUnavailable, err)
		}
		v.client = kms.NewFromConfig(base, func(o *kms.Options) {
			o.Retryer = awsretry.New(maxAttempts, v.backoff)
		})
	}
	return kek{v.client, arn}, true, nil
}

// Context returns the associated data with which a workspace's data keys are
// wrapped. KMS gets it as [encryptionContext].
func Context(org string) []byte { return vault.AssociatedData("key", org) }

// encryptionContext returns the encryption context of a workspace's data keys.
func encryptionContext(org string) map[string]string {
	return map[string]string{"associatedData": hex.EncodeToString(Context(org))}
}

// wrap encrypts a data key of a workspace.
func (k kek) wrap(ctx context.Context, org string, plain []byte) ([]byte, error) {
	out, err := k.client.Encrypt(ctx, &kms.EncryptInput{KeyId: &k.arn, Plaintext: plain, EncryptionContext: encryptionContext(org)})
	if err != nil {
		return nil, translate("wrap", err)
	}
	return out.CiphertextBlob, nil
}

// unwrap decrypts what wrap returned.
func (k kek) unwrap(ctx context.Context, org string, wrapped []byte) ([]byte, error) {
	out, err := k.client.Decrypt(ctx, &kms.DecryptInput{KeyId: &k.arn, CiphertextBlob: wrapped, EncryptionContext: encryptionContext(org)})
	if err != nil {
		return nil, translate("unwrap", err)
	}
	return out.Plaintext, nil
}

// translate maps a KMS error to the port's. Others keep their chain, so that an
// ended context stays visible.
func translate(op string, err error) error {
	_, invalid := errors.AsType[*types.InvalidCiphertextException](err)
	_, incorrect := errors.AsType[*types.IncorrectKeyException](err)
	if invalid || incorrect {
		return fmt.Errorf("%w: %s a data key: not this workspace's, or changed", vault.ErrRejected, op)
	}
	return fmt.Errorf("%w: %s a data key: %w", vault.ErrUnavailable, op, err)
}
