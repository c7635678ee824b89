//go:build unix

package attack

import "syscall"

// niceness is the attacker's: what it sends is not what makes others wait.
const niceness = 10

// lowerPriority lowers that of the process's group, all its threads, not of the
// calling thread alone.
func lowerPriority() error { return syscall.Setpriority(syscall.PRIO_PGRP, 0, niceness) }
