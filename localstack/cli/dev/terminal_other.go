//go:build !linux && !darwin

package dev

import "os"

// Keys reads none here.
func Keys(*os.File) (keys <-chan byte, restore func()) { return nil, func() {} }
