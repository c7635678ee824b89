//go:build !unix

package attack

// lowerPriority does nothing: the figures are those of a machine that is shared.
func lowerPriority() error { return nil }
