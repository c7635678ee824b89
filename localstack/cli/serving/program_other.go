//go:build !linux

package serving

// unmapProgram does nothing: only Linux is known to read unmapped pages of a
// program again.
func unmapProgram() {}
