package signature_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/signature"
	"millrace/shared/platform/signature/signaturetest"
)

type key struct{ private *ecdsa.PrivateKey }

func (k key) Open(t *testing.T) signature.Signer {
	s, err := signature.NewLocal(k.private)
	require.NoError(t, err)
	return s
}

func TestLocal(t *testing.T) {
	t.Parallel()
	signaturetest.Exercise(t, func(t *testing.T) signaturetest.Key {
		private, err := signature.NewKey()
		require.NoError(t, err)
		return key{private}
	})
}

func TestOtherKeysAreRejected(t *testing.T) {
	t.Parallel()
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	_, err = signature.NewLocal(p384)
	assert.ErrorContains(t, err, "P-256")
	public, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	_, err = signature.ParsePublicKey(der)
	assert.ErrorContains(t, err, "ed25519")
	for _, text := range []string{"", "nonsense", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		_, err := signature.ParsePEM([]byte(text))
		assert.Error(t, err, text)
	}
}
