package tier_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/run/tier"
)

func TestSet(t *testing.T) {
	t.Parallel()
	whole, err := tier.ParseSet("")
	require.NoError(t, err)
	assert.Nil(t, whole)
	assert.Equal(t, tier.All(), whole.All())
	assert.True(t, whole.Has(tier.XLarge))
	assert.Empty(t, whole.String())

	some, err := tier.ParseSet("medium, nano,micro")
	require.NoError(t, err)
	assert.Equal(t, tier.Set{tier.Nano, tier.Micro, tier.Medium}, some)
	assert.Equal(t, "nano,micro,medium", some.String())
	assert.False(t, some.Has(tier.Large))
	assert.False(t, whole.Has("giant"))
	assert.Equal(t, []tier.Tier{tier.Nano, tier.Medium}, []tier.Tier{some.Nearest(tier.Large), some.Nearest(tier.Medium)})
	some.All()[0] = tier.XLarge
	assert.Equal(t, tier.Nano, some[0], "All returns a copy")

	for name, code := range map[string]errs.Code{"": "", "micro": "", "large": errs.Invalid, "giant": errs.Invalid} {
		_, err := some.Parse(name)
		assert.Equal(t, code, errs.CodeOf(err), name)
	}
	_, err = some.Parse("large")
	assert.ErrorContains(t, err, "large is not available in this deployment, which has nano, micro, medium")
}

func TestInvalidSet(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"nano,giant":   `"giant" is not one of nano, micro`,
		"nano,":        `"" is not one of`,
		"nano,nano":    "nano is there twice",
		"micro,medium": "nano is missing",
	} {
		_, err := tier.ParseSet(text)
		assert.ErrorContains(t, err, want, text)
	}
}
