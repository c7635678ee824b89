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

// tree reads what the processes of one interpreter hold, from a /proc.
type tree struct {
	proc *os.File
	// root is the interpreter's process where the /proc shows those of others too:
	// then its descendants count, and, with a user of its own, all of that user.
	root int
	uid  *int
	buf  []byte
}

// newTree returns the tree of an interpreter that is ready and has not run any
// code of a task. In a PID namespace the /proc within shows it alone.
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

// processes lists what is alive of the tree.
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
		if pid, err := strconv.Atoi(name); err == nil {
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

// read returns a file below /proc; the bytes are valid until the next call.
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

// status reads one process; false when it has ended.
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

// field is the first number behind a label; 0 without one.
func field(data []byte, label string) int64 {
	_, rest, _ := bytes.Cut(data, []byte(label))
	rest = bytes.TrimLeft(rest, " \t")
	end := bytes.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	n, _ := strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
	return n
}

// memory is what the processes hold together, in bytes. Their own counts are
// added up first, which is quick; over the limit, what several of them share
// counts once. Where the kernel does not tell the server what they share, as in
// the plain mode of one that is not root, the largest of them counts alone.
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
	// The largest first, and no more than it takes: the kernel has the server wait
	// for processes that grow.
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

// unlinked is the bytes of files without a name that the processes hold open or
// mapped on a device.
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

// endUser kills what runs as a user of tasks. Without a PID namespace that is
// the only hold on a process that has left its group.
func endUser(uid int) {
	t := &tree{buf: make([]byte, 8<<10), root: -1, uid: &uid}
	var err error
	if t.proc, err = os.Open("/proc"); err != nil {
		return
	}
	defer t.close()
	for range 100 { // what forks on is met again
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
