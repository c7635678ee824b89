//go:build unix && !linux

package proc

import "syscall"

// dieWithParent does nothing, because macOS and the BSDs cannot end a child
// with its parent.
func dieWithParent(*syscall.SysProcAttr) {}
