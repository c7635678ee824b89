package tier_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/errs"
	"millrace/shared/run/tier"
)

func TestMemoryDoublesFromTierToTier(t *testing.T) {
	t.Parallel()
	want := map[tier.Tier]int{"nano": 256, "micro": 512, "small": 1024, "medium": 2048, "large": 4096, "xlarge": 8192}
	got := map[tier.Tier]int{}
	for _, one := range tier.All() {
		got[one] = one.MemoryMB()
	}
	assert.Equal(t, want, got)
	assert.Zero(t, tier.Tier("giant").MemoryMB())
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, one := range tier.All() {
		got, err := tier.Parse(string(one))
		require.NoError(t, err)
		assert.Equal(t, one, got)
	}
	got, err := tier.Parse("")
	require.NoError(t, err)
	assert.Equal(t, tier.Nano, got)
}

func TestUnsupportedTierIs400(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"giant", "Nano", " nano", strings.Repeat("é", 500)} {
		_, err := tier.Parse(name)
		assert.Equal(t, errs.Invalid, errs.CodeOf(err), name)
		assert.Less(t, len(err.Error()), 300)
	}
}
