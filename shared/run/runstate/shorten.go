package runstate

import "strings"

// Shorten returns an error message as one line of about most bytes.
func Shorten(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
