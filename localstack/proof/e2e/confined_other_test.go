//go:build !linux

package e2e

// roles are what the test binary plays: nothing.
var roles map[string]func(string) error
