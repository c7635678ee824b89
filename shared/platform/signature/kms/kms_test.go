package kms_test

import (
	"context"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/emulators"
	"millrace/shared/platform/signature"
	"millrace/shared/platform/signature/kms"
	"millrace/shared/platform/signature/signaturetest"
)

// key is a key of the emulator.
type key struct {
	base aws.Config
	arn  string
}

func (k key) Open(t *testing.T) signature.Signer {
	s, err := kms.New(kms.Config{Key: k.arn, AWS: func(context.Context) (aws.Config, error) { return k.base, nil }})
	require.NoError(t, err)
	return s
}

func newKey(t *testing.T, base aws.Config, spec types.KeySpec, usage types.KeyUsageType) key {
	t.Helper()
	out, err := awskms.NewFromConfig(base).CreateKey(t.Context(), &awskms.CreateKeyInput{KeySpec: spec, KeyUsage: usage})
	require.NoError(t, err)
	return key{base, *out.KeyMetadata.Arn}
}

func TestSigner(t *testing.T) {
	t.Parallel()
	base := emulators.KMS(t).Config()
	signaturetest.Exercise(t, func(t *testing.T) signaturetest.Key {
		return newKey(t, base, types.KeySpecEccNistP256, types.KeyUsageTypeSignVerify)
	})
}

func TestUnusableKeys(t *testing.T) {
	t.Parallel()
	_, err := kms.New(kms.Config{})
	assert.ErrorContains(t, err, "empty ARN")
	base := emulators.KMS(t).Config()
	for name, k := range map[string]key{
		"unknown":       {base, "arn:aws:kms:eu-central-1:123456789012:key/00000000-0000-0000-0000-000000000000"},
		"another curve": newKey(t, base, types.KeySpecEccNistP384, types.KeyUsageTypeSignVerify),
		"for secrets":   newKey(t, base, types.KeySpecSymmetricDefault, types.KeyUsageTypeEncryptDecrypt),
	} {
		_, err := k.Open(t).Sign(t.Context(), []byte("message"))
		assert.ErrorIs(t, err, signature.ErrUnavailable, name)
	}
}

func TestMain(m *testing.M) {
	code := m.Run()
	emulators.StopAll()
	os.Exit(code)
}
