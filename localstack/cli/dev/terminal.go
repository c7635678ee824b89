//go:build linux || darwin

package dev

import (
	"os"

	"golang.org/x/sys/unix"
)

// Keys reads single key presses from a terminal, without waiting for a line's end.
// Ctrl-C and the like still send signals. keys is nil if in is no terminal, or if
// another process is in its foreground.
func Keys(in *os.File) (keys <-chan byte, restore func()) {
	fd := int(in.Fd()) //nolint:gosec // a descriptor fits
	before, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, func() {}
	}
	// The kernel stops a background process that changes the terminal.
	if front, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || front != unix.Getpgrp() {
		return nil, func() {}
	}
	single := *before
	single.Lflag &^= unix.ICANON | unix.ECHO
	single.Cc[unix.VMIN], single.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(fd, setTermios, &single); err != nil {
		return nil, func() {}
	}
	pressed := make(chan byte)
	go func() {
		for key := make([]byte, 1); ; pressed <- key[0] {
			if _, err := in.Read(key); err != nil {
				return
			}
		}
	}()
	return pressed, func() { _ = unix.IoctlSetTermios(fd, setTermios, before) } // a terminal that is gone
}
