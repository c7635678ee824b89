//go:build !windows

package session

import (
	"fmt"
	"os"
	"syscall"
)

// mine returns an error if a file belongs to another user: anyone who can write to a
// parent folder, such as /tmp, could direct commands to a server of theirs.
func mine(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user: set %s and %s if you trust it", path, urlVariable, keyVariable)
	}
	return nil
}
