//go:build !linux

package emulators

import "syscall"

// dieWithParent can do nothing here: only Linux tells a child of its parent's
// death. Call [StopAll] in TestMain.
func dieWithParent(*syscall.SysProcAttr) {}
