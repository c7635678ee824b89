//go:build !linux && !darwin

package store

// bootID returns "": this system has no id of its boot.
func bootID() string { return "" }
