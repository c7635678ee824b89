//go:build unix

package interpreters

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// uidLocks is the directory in which the servers of this machine, which are
// root if they need it, agree on the use of users. It lasts until the next
// boot.
const uidLocks = "/var/run/millrace-task-uids"

// ownUID is a user that one interpreter of this machine has at a time.
type ownUID struct {
	id   int
	lock *os.File
}

// claimUID claims the first user id, from first on, that no interpreter of this
// or another server has.
func claimUID(first int) (*ownUID, error) {
	if err := os.MkdirAll(uidLocks, 0o700); err != nil {
		return nil, err
	}
	for id := first; id < first+10_000; id++ {
		file, err := os.OpenFile(filepath.Join(uidLocks, fmt.Sprint(id)), os.O_CREATE|os.O_RDONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return &ownUID{id: id, lock: file}, nil
		}
		_ = file.Close()
	}
	return nil, fmt.Errorf("no user for a task is free from %d on", first)
}

// value returns the user id for the child, nil to keep the server's user.
func (u *ownUID) value() *int {
	if u == nil {
		return nil
	}
	return &u.id
}

// release frees the user, once nothing runs as it any more.
func (u *ownUID) release() {
	if u != nil {
		_ = u.lock.Close()
	}
}
