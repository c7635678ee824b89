package store

import (
	"os"
	"strings"
)

// bootID tells one start of the machine from the next; "" if nothing does.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
