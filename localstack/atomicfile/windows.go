//go:build windows

package atomicfile

// SyncDir does nothing, because Windows cannot sync directories.
func SyncDir(string) error { return nil }
