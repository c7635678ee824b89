// Package signaturetest is the conformance suite of package signature. Every
// driver passes it with its own factory.
package signaturetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/signature"
)

// Key is a signing key. Open returns a new signer with it, as a starting process
// would.
type Key interface {
	Open(t *testing.T) signature.Signer
}

// NewKey creates a key that nothing else uses.
type NewKey func(t *testing.T) Key

// Exercise runs the suite.
func Exercise(t *testing.T, newKey NewKey) {
	t.Helper()
	for name, run := range map[string]func(*testing.T, NewKey){
		"SignedMessageVerifies": verifies, "OthersAreRefused": refuses, "Restart": restart,
		"PublicKeyIsPEM": pem, "EndedContext": ended,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, newKey) })
	}
}

var message = []byte("audit digest of a day")

func signed(t *testing.T, s signature.Signer) (signature.PublicKey, signature.Signature) {
	t.Helper()
	sig, err := s.Sign(t.Context(), message)
	require.NoError(t, err)
	key, err := s.PublicKey(t.Context())
	require.NoError(t, err)
	assert.Equal(t, key.ID(), sig.KeyID)
	return key, sig
}

func verifies(t *testing.T, newKey NewKey) {
	s := newKey(t).Open(t)
	key, first := signed(t, s)
	assert.True(t, key.Signed(message, first))
	_, second := signed(t, s)
	assert.True(t, key.Signed(message, second))
	for _, other := range [][]byte{{0}, make([]byte, signature.MaxMessage)} {
		sig, err := s.Sign(t.Context(), other)
		require.NoError(t, err)
		assert.True(t, key.Signed(other, sig))
	}
	for _, other := range [][]byte{nil, make([]byte, signature.MaxMessage+1)} {
		_, err := s.Sign(t.Context(), other)
		assert.ErrorIs(t, err, signature.ErrArgument)
	}
}

func refuses(t *testing.T, newKey NewKey) {
	key, sig := signed(t, newKey(t).Open(t))
	other, err := newKey(t).Open(t).PublicKey(t.Context())
	require.NoError(t, err)
	assert.NotEqual(t, key.ID(), other.ID())
	assert.False(t, other.Signed(message, sig), "of another key")
	assert.False(t, other.Signed(message, signature.Signature{KeyID: other.ID(), Value: sig.Value}), "under another key's name")
	assert.False(t, key.Signed(append([]byte("x"), message...), sig), "of another message")
	assert.False(t, key.Signed(message, signature.Signature{}), "no signature")
	assert.False(t, key.Signed(message, signature.Signature{KeyID: key.ID()}), "an empty one")
	for i := range sig.Value {
		changed := append([]byte{}, sig.Value...)
		changed[i] ^= 1
		assert.False(t, key.Signed(message, signature.Signature{KeyID: key.ID(), Value: changed}), "byte %d changed", i)
	}
}

func restart(t *testing.T, newKey NewKey) {
	k := newKey(t)
	_, sig := signed(t, k.Open(t))
	key, err := k.Open(t).PublicKey(t.Context())
	require.NoError(t, err)
	assert.True(t, key.Signed(message, sig))
}

func pem(t *testing.T, newKey NewKey) {
	key, sig := signed(t, newKey(t).Open(t))
	read, err := signature.ParsePEM([]byte(key.PEM()))
	require.NoError(t, err)
	assert.Equal(t, key.ID(), read.ID())
	assert.True(t, read.Signed(message, sig))
}

func ended(t *testing.T, newKey NewKey) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newKey(t).Open(t).Sign(ctx, message)
	assert.ErrorIs(t, err, context.Canceled)
}
