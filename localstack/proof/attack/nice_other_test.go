//go:build !unix

package attack

// lowerPriority does nothing on this system.
func lowerPriority() error { return nil }
