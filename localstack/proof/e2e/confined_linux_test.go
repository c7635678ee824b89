package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"millrace/localstack/proc/proctest"
)

// roles are the roles of the test binary.
var roles = map[string]func(string) error{"confined": becomeConfined}

// confined describes how to run a program.
type confined struct {
	Binary       string
	UID          int // 0: the test's
	Home         string
	NoNamespaces bool // as in a container
}

// becomeConfined executes the program.
func becomeConfined(argument string) error {
	var c confined
	if err := json.Unmarshal([]byte(argument), &c); err != nil {
		return err
	}
	env := proctest.Environment()
	if c.UID != 0 {
		if err := changeUser(c.UID); err != nil {
			return err
		}
		env = append(env, "HOME="+c.Home)
	}
	runtime.LockOSThread() // the filter applies to this thread, which executes the program
	if c.NoNamespaces {
		if err := denyNamespaces(); err != nil {
			return err
		}
	}
	return syscall.Exec(c.Binary, append([]string{c.Binary}, os.Args[1:]...), env)
}

func changeUser(uid int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(uid); err != nil {
		return err
	}
	return syscall.Setuid(uid)
}

// namespaceFlags are the flags of clone and unshare that create namespaces.
const namespaceFlags = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// denyNamespaces makes the kernel deny them to this thread and its children, as
// Docker's filter does.
func denyNamespaces() error {
	const number, flags = 0, 16 // offsets in the filter's data
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(test uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	filter := []unix.SockFilter{
		load(number),
		jump(unix.BPF_JEQ, unix.SYS_CLONE3, 5, 0),
		jump(unix.BPF_JEQ, unix.SYS_CLONE, 1, 0),
		jump(unix.BPF_JEQ, unix.SYS_UNSHARE, 0, 2),
		load(flags),
		jump(unix.BPF_JSET, namespaceFlags, 2, 0),
		answer(unix.SECCOMP_RET_ALLOW),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		answer(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_NO_NEW_PRIVS: %w", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_SECCOMP: %w", err)
	}
	return nil
}
