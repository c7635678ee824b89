//go:build !linux

package e2e

// roles are the roles of the test binary: none.
var roles map[string]func(string) error
