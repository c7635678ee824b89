package vault_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"millrace/shared/platform/vault"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	require.NoError(t, vault.Check("org", "name", vault.MaxValue))
	require.ErrorIs(t, vault.Check("", "name", 0), vault.ErrArgument)
	require.ErrorIs(t, vault.Check("org", "", 0), vault.ErrArgument)
	require.ErrorIs(t, vault.Check("org", "name", vault.MaxValue+1), vault.ErrArgument)
}

// TestAssociatedDataIsInjective checks that different parts, such as ("a",
// "bc") and ("ab", "c"), give different data.
func TestAssociatedDataIsInjective(t *testing.T) {
	t.Parallel()
	part := rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'b', 0, 1, 2}), 0, 4, -1)
	parts := rapid.SliceOfN(part, 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		a, b := parts.Draw(t, "a"), parts.Draw(t, "b")
		same := slices.Equal(vault.AssociatedData("value", a...), vault.AssociatedData("value", b...))
		assert.Equal(t, slices.Equal(a, b), same)
	})
	assert.NotEqual(t, vault.AssociatedData("value", "a"), vault.AssociatedData("key", "a"))
}
