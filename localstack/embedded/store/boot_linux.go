package store

import (
	"os"
	"strings"
)

// bootID returns an id of the current boot of the machine, "" if there is none.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
