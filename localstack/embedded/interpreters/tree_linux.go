package interpreters

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// tree reads the resource usage of an interpreter's processes from a /proc.
type tree struct {
	proc *os.File
	// root is the interpreter's process if the /proc also shows other processes:
	// only its descendants count, and, with its own user, all of that user.
	root int
	uid  *int
	buf  []byte
}

// newTree returns the tree of an interpreter that is ready and has not run task
// code yet. In a PID namespace, its /proc shows only its own processes.
func newTree(pid int, m mode, uid *int) (*tree, error) {
	t := &tree{buf: make([]byte, 8<<10)}
	path := "/proc"
	if m.name == "namespaces" {
		path = fmt.Sprintf("/proc/%d/root/proc", pid)
	} else {
		t.root, t.uid = pid, uid
	}
	var err error
	t.proc, err = os.Open(path)
	return t, err
}

func (t *tree) close() { _ = t.proc.Close() }

// processes returns the live processes of the tree.
func (t *tree) processes() ([]process, error) {
	if _, err := t.proc.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := t.proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []process
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && (pid != 1 || t.root != 0) { // the first process of a namespace does not run a task
			if p, ok := t.status(pid); ok {
				all = append(all, p)
			}
		}
	}
	if t.root == 0 {
		return all, nil
	}
	return descendants(all, t.root, t.uid), nil
}

// read returns a file below /proc. The bytes are valid until the next call.
func (t *tree) read(name string) ([]byte, error) {
	fd, err := unix.Openat(int(t.proc.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	for n := 0; ; {
		if n == len(t.buf) {
			t.buf = append(t.buf, make([]byte, len(t.buf))...)
		}
		more, err := unix.Read(fd, t.buf[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case more == 0:
			return t.buf[:n], nil
		default:
			n += more
		}
	}
}

// status reads one process. ok is false if it has ended.
func (t *tree) status(pid int) (process, bool) {
	data, err := t.read(strconv.Itoa(pid) + "/status")
	if err != nil {
		return process{}, false
	}
	return process{
		pid: pid, parent: int(field(data, "\nPPid:")), uid: int(field(data, "\nUid:")),
		memory: (field(data, "\nRssAnon:") + field(data, "\nRssShmem:") + field(data, "\nVmSwap:")) << 10,
	}, true
}

// field returns the first number after a label, 0 if the label is missing.
func field(data []byte, label string) int64 {
	_, rest, _ := bytes.Cut(data, []byte(label))
	rest = bytes.TrimLeft(rest, " \t")
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	n, _ := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	return n
}

// memory returns the total memory of the processes in bytes. It first adds up
// their own counts, which is fast; if that exceeds the limit, it counts shared
// memory once. If the kernel does not tell the server what they share, as in
// the plain mode of a server that is not root, only the largest process counts.
func (t *tree) memory(processes []process, limit int64) int64 {
	var sum int64
	for _, p := range processes {
		sum += p.memory
	}
	if sum <= limit || len(processes) < 2 {
		return sum
	}
	sum = 0
	var closed int64
	// The largest first, and only as many as needed: the kernel makes the server
	// wait for processes that grow.
	slices.SortFunc(processes, func(a, b process) int { return cmp.Compare(b.memory, a.memory) })
	for _, p := range processes {
		if sum+closed > limit {
			break
		}
		data, err := t.read(strconv.Itoa(p.pid) + "/smaps_rollup")
		switch {
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			closed = max(closed, p.memory)
		case err == nil && bytes.Contains(data, []byte("\nPss_Anon:")):
			sum += (field(data, "\nPss_Anon:") + field(data, "\nPss_Shmem:") + field(data, "\nSwapPss:")) << 10
		case err == nil: // before Linux 5.9
			sum += p.memory
		}
	}
	return sum + closed
}

// unlinked returns the bytes of unnamed files on a device that the processes
// hold open or mapped.
func (t *tree) unlinked(processes []process, device uint64) int64 {
	var sum int64
	seen := make(map[uint64]bool)
	count := func(name string) {
		var s unix.Stat_t
		if unix.Fstatat(int(t.proc.Fd()), name, &s, 0) != nil {
			return
		}
		if s.Nlink == 0 && s.Mode&unix.S_IFMT == unix.S_IFREG && s.Dev == device && !seen[s.Ino] {
			seen[s.Ino] = true
			sum += s.Blocks * 512
		}
	}
	for _, p := range processes {
		pid := strconv.Itoa(p.pid)
		for _, name := range t.list(pid + "/fd") {
			count(pid + "/fd/" + name)
		}
		maps, _ := t.read(pid + "/maps")
		for line := range bytes.Lines(maps) {
			if bytes.HasSuffix(line, []byte(" (deleted)\n")) {
				addresses, _, _ := bytes.Cut(line, []byte(" "))
				count(pid + "/map_files/" + string(addresses))
			}
		}
	}
	return sum
}

func (t *tree) list(name string) []string {
	fd, err := unix.Openat(int(t.proc.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}

// endUser kills all processes of a task user. Without a PID namespace, that is
// the only way to find a process that has left its group.
func endUser(uid int) {
	t := &tree{buf: make([]byte, 8<<10), root: -1, uid: &uid}
	var err error
	if t.proc, err = os.Open("/proc"); err != nil {
		return
	}
	defer t.close()
	for range 100 { // forking processes may escape a round
		left, err := t.processes()
		alive := false
		for _, p := range left {
			alive = syscall.Kill(p.pid, syscall.SIGKILL) == nil && !t.zombie(p.pid) || alive
		}
		if err != nil || !alive {
			return
		}
	}
}

func (t *tree) zombie(pid int) bool {
	data, err := t.read(strconv.Itoa(pid) + "/status")
	return err != nil || bytes.Contains(data, []byte("\nState:\tZ"))
}
