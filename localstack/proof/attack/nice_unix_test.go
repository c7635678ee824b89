//go:build unix

package attack

import "syscall"

// niceness is the attacker's: its own processor use should not delay others.
const niceness = 10

// lowerPriority lowers the priority of the process group, that is, of all
// threads and not only the calling one.
func lowerPriority() error { return syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness) }
