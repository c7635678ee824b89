// Package kms is the [signature.Signer] driver for an asymmetric key of AWS KMS
// (key specification ECC_NIST_P256, usage SIGN_VERIFY). The private key never
// leaves KMS; signing is one request, the public key is read once.
package kms

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"millrace/shared/platform/awsenv"
	"millrace/shared/platform/awsretry"
	"millrace/shared/platform/signature"
)

// The SDK's retryer is the only layer that retries.
const (
	maxAttempts = 4
	maxBackoff  = 2 * time.Second
)

// Config selects the key.
type Config struct {
	Key string // ARN; not an alias, which may come to name another key
	// AWS loads region, credentials and endpoint on first use; nil means those
	// of the environment.
	AWS func(ctx context.Context) (aws.Config, error)
}

// Signer is the KMS driver. Create it with New.
type Signer struct {
	cfg Config

	mu     sync.Mutex // guards the lazy fields
	client *kms.Client
	public signature.PublicKey
	known  bool // public is set
}

var _ signature.Signer = (*Signer)(nil)

// New returns a signer. It makes no request: the client is built on first use.
// It returns an error if the ARN is empty.
func New(cfg Config) (*Signer, error) {
	if cfg.Key == "" {
		return nil, errors.New("signature: empty ARN of the KMS key")
	}
	if cfg.AWS == nil {
		cfg.AWS = awsenv.Load
	}
	return &Signer{cfg: cfg}, nil
}

// PublicKey returns the public part of the key.
func (s *Signer) PublicKey(ctx context.Context) (signature.PublicKey, error) {
	_, key, err := s.open(ctx)
	return key, err
}

// open returns the client and the public key.
func (s *Signer) open(ctx context.Context) (*kms.Client, signature.PublicKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		// The client outlives the first caller, so its cancellation must not apply.
		base, err := s.cfg.AWS(context.WithoutCancel(ctx))
		if err != nil {
			return nil, s.public, fmt.Errorf("%w: %w", signature.ErrUnavailable, err)
		}
		s.client = kms.NewFromConfig(base, func(o *kms.Options) { o.Retryer = awsretry.New(maxAttempts, maxBackoff) })
	}
	if !s.known {
		out, err := s.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &s.cfg.Key})
		if err != nil {
			return nil, s.public, fmt.Errorf("%w: read the public key: %w", signature.ErrUnavailable, err)
		}
		if s.public, err = signature.ParsePublicKey(out.PublicKey); err != nil {
			return nil, s.public, fmt.Errorf("%w: %w", signature.ErrUnavailable, err)
		}
		s.known = true
	}
	return s.client, s.public, nil
}

// Sign signs a message, which KMS hashes.
func (s *Signer) Sign(ctx context.Context, message []byte) (signature.Signature, error) {
	if err := errors.Join(ctx.Err(), signature.Check(message)); err != nil {
		return signature.Signature{}, err
	}
	client, key, err := s.open(ctx)
	if err != nil {
		return signature.Signature{}, err
	}
	out, err := client.Sign(ctx, &kms.SignInput{
		KeyId: &s.cfg.Key, Message: message, MessageType: types.MessageTypeRaw,
		SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
	})
	if err != nil {
		return signature.Signature{}, fmt.Errorf("%w: sign: %w", signature.ErrUnavailable, err)
	}
	return signature.Signature{KeyID: key.ID(), Value: out.Signature}, nil
}
