package store

import "golang.org/x/sys/unix"

// bootID returns an id of the current boot of the machine, "" if there is none.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
