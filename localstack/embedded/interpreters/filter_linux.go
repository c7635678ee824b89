package interpreters

import (
	"encoding/binary"
	"encoding/hex"
	"runtime"
	"sync"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// System calls that no task needs and that past exploits used, or by which
// memory can be held that is not counted. They fail as if the task lacked the
// permission, or the kernel the call.
var (
	forbidden = []uint32{
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR,
		unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV,
		unix.SYS_KCMP, unix.SYS_PIDFD_GETFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_FANOTIFY_INIT,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_QUOTACTL,
	}
	absent = []uint32{
		unix.SYS_CLONE3, // a filter cannot inspect its flags; C libraries then fall back to clone
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
		unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_MSGGET, unix.SYS_SEMGET,
	}
	newNamespaces = uint32(unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP)
)

// Offsets in struct seccomp_data, on a little-endian machine.
const (
	numberAt, archAt, firstArgumentAt = 0, 4, 16
	x32Bit                            = 0x40000000 // flag of the x32 calls on amd64
)

// filter returns the seccomp filter of tasks, as struct sock_filter in
// hexadecimal; empty if there is none for this architecture.
var filter = sync.OnceValue(func() string {
	arch, ok := map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]
	if !ok {
		return ""
	}
	refuse := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	unknown := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
	program := []bpf.Instruction{
		// The numbers of calls differ in the machine's other architectures.
		bpf.LoadAbsolute{Off: archAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1}, unknown,
		bpf.LoadAbsolute{Off: numberAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1}, unknown,
	}
	deny := func(numbers []uint32, how bpf.Instruction) {
		for _, number := range numbers {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: number, SkipTrue: 1}, how)
		}
	}
	deny(forbidden, refuse)
	deny(absent, unknown)
	program = append(program,
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SYS_CLONE, SkipTrue: 3},
		bpf.LoadAbsolute{Off: firstArgumentAt, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: newNamespaces, SkipTrue: 1}, refuse,
		bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW},
	)
	raw, err := bpf.Assemble(program)
	if err != nil {
		panic(err) // the program is constant
	}
	var bytes []byte
	for _, i := range raw {
		bytes = binary.LittleEndian.AppendUint16(bytes, i.Op)
		bytes = append(bytes, i.Jt, i.Jf)
		bytes = binary.LittleEndian.AppendUint32(bytes, i.K)
	}
	return hex.EncodeToString(bytes)
})
