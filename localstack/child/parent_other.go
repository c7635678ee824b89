//go:build !linux

package child

import "syscall"

// dieWithParent can do nothing here: only Linux tells a child of its parent's
// death. Elsewhere end children by [Process.Kill].
func dieWithParent(*syscall.SysProcAttr) {}
