//go:build !windows

package bundle

import (
	"fmt"
	"os"
	"syscall"
)

// become replaces this process by a program, with the same arguments. The program's own
// name is the whole path of this one, by which it finds what lies beside it.
func become(file string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	err = syscall.Exec(file, append([]string{self}, os.Args[1:]...), os.Environ()) //nolint:gosec // what this binary carries
	return fmt.Errorf("start %s: %w", file, err)
}

// private refuses a folder that another user may write to.
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
