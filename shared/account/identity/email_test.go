package identity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/account/identity"
	"millrace/shared/platform/errs"
)

func TestParseEmail(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"ann@example.com":          "ann@example.com",
		"Ann.B+tag@Example.COM":    "ann.b+tag@example.com",
		"o'neil#1@sub.example.org": "o'neil#1@sub.example.org",
	} {
		got, err := identity.ParseEmail(in)
		require.NoError(t, err, in)
		assert.Equal(t, want, got)
	}
	for _, in := range []string{
		"", "ann", "@example.com", "ann@", "ann@@example.com", "a b@example.com", " ann@example.com", "ann@example.com\n",
		"Ann <ann@example.com>", "ann@example.com,bob@example.com", "\u212aate@example.com", "zoë@example.com",
		`"ann"@example.com`, "ann@example.com (hi)", strings.Repeat("a", 250) + "@example.com", "ann\x00@example.com",
	} {
		_, err := identity.ParseEmail(in)
		assert.Equal(t, errs.Invalid, errs.CodeOf(err), "%q", in)
	}
}

func FuzzParseEmail(f *testing.F) {
	f.Add("Ann@Example.com")
	f.Add("\u212a@x")
	f.Fuzz(func(t *testing.T, s string) {
		email, err := identity.ParseEmail(s)
		if err != nil {
			return
		}
		again, err := identity.ParseEmail(email)
		if err != nil || again != email {
			t.Fatalf("%q gives %q, which gives %q (%v)", s, email, again, err)
		}
		if !strings.EqualFold(s, email) || len(s) != len(email) {
			t.Fatalf("%q becomes another address: %q", s, email)
		}
	})
}
