//go:build !windows

package bundle

import (
	"fmt"
	"os"
	"syscall"
)

// become replaces this process with a program that gets the same arguments. Its
// os.Args[0] is the absolute path of this executable, so that it finds the files
// beside it.
func become(file string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = syscall.Exec(file, append([]string{self}, os.Args[1:]...), os.Environ()) //nolint:gosec // what this binary carries
	return fmt.Errorf("start %s: %w", file, err)
}

// private returns an error if another user can write to the folder.
func private(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || info.Mode().Perm()&0o022 != 0 || !ok || int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is not a folder that only this user may write to", dir)
	}
	return nil
}
