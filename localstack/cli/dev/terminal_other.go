//go:build !linux && !darwin

package dev

import "os"

// Keys is not implemented on this system: keys is nil.
func Keys(*os.File) (keys <-chan byte, restore func()) { return nil, func() {} }
