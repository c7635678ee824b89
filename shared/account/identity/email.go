package identity

import (
	"net/mail"
	"strings"

	"millrace/shared/platform/errs"
)

// maxEmail is the longest address SMTP can deliver to.
const maxEmail = 254

// ParseEmail returns the address in the form it is stored: lower case. Errors:
// errs.Invalid for anything but a plain ASCII address.
//
// Only ASCII is taken because other alphabets hold letters whose lower case is
// an ASCII letter (the Kelvin sign becomes k), by which one user could sign in
// as another.
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
