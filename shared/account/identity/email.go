package identity

import (
	"net/mail"
	"strings"

	"millrace/shared/platform/errs"
)

// maxEmail is the longest address that SMTP can deliver to.
const maxEmail = 254

// ParseEmail returns the stored form of an address: lower case. Errors:
// errs.Invalid for anything but a plain ASCII address.
//
// Only ASCII is accepted, because some non-ASCII letters have an ASCII lower
// case (the Kelvin sign becomes k), so one user could sign in as another.
func ParseEmail(s string) (string, error) {
	bad := errs.New(errs.Invalid, "not a valid email address")
	if len(s) > maxEmail {
		return "", bad
	}
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`"\(),:;<>[]`, c) >= 0 {
			return "", bad
		}
	}
	if a, err := mail.ParseAddress(s); err != nil || a.Address != s || a.Name != "" {
		return "", bad
	}
	return strings.ToLower(s), nil
}
