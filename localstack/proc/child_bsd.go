//go:build unix && !linux

package proc

import "syscall"

// dieWithParent can do nothing here: macOS and the BSDs do not end a child with
// its parent.
func dieWithParent(*syscall.SysProcAttr) {}
