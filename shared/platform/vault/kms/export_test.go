package kms

import "time"

// WithBackoff shortens the pauses between attempts.
func WithBackoff(v *Vault, longest time.Duration) *Vault {
	v.backoff = longest
	return v
}
