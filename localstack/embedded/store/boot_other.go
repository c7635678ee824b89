//go:build !linux && !darwin

package store

// bootID tells one start of the machine from the next; "": nothing does here.
func bootID() string { return "" }
