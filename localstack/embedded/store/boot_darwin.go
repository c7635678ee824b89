package store

import "golang.org/x/sys/unix"

// bootID tells one start of the machine from the next; "" if nothing does.
func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
