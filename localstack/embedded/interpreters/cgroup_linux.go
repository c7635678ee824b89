package interpreters

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroups is a cgroup v2 directory below the server's own, with a group for
// each interpreter: the kernel then bounds processes and memory, including that
// of files in memory.
type cgroups struct{ dir string }

// ownCgroups returns the cgroups of this process, or nil if openCgroups fails.
func ownCgroups() *cgroups {
	g, err := openCgroups("/proc/self/mountinfo", "/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return g
}

// openCgroups creates the directory. It fails if the server may not create
// groups on this machine, in which case only the watch bounds what tasks hold.
func openCgroups(mounts, self string) (*cgroups, error) {
	own, whole, err := ownCgroup(mounts, self)
	if err != nil {
		return nil, err
	}
	if !whole && !delegated(own) {
		return nil, errors.New("the server's cgroup v2 is its service manager's (systemd: Delegate=yes hands it over)")
	}
	controllers, err := os.ReadFile(filepath.Join(own, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"memory", "pids"} {
		if !bytes.Contains(controllers, []byte(name)) {
			return nil, fmt.Errorf("cgroup v2 of the server has no %s controller", name)
		}
	}
	if err := divide(own); err != nil {
		return nil, err
	}
	g := &cgroups{dir: filepath.Join(own, "millrace-tasks-"+strconv.Itoa(os.Getpid()))}
	if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	return g, divide(g.dir)
}

// delegated reports whether a service manager has delegated a group.
func delegated(dir string) bool {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		value := make([]byte, 1)
		if n, err := unix.Getxattr(dir, name, value); err == nil && n == 1 && value[0] == '1' {
			return true
		}
	}
	return false
}

// ownCgroup returns the directory of this process's cgroup v2, and whether that
// is the root of the visible tree, as in a container.
func ownCgroup(mounts, self string) (dir string, whole bool, err error) {
	list, err := os.ReadFile(mounts)
	if err != nil {
		return "", false, err
	}
	var mount, base string
	for line := range strings.Lines(string(list)) {
		if before, after, ok := strings.Cut(line, " - "); ok && strings.HasPrefix(after, "cgroup2 ") {
			fields := strings.Fields(before)
			base, mount = fields[3], fields[4]
		}
	}
	if mount == "" {
		return "", false, errors.New("no cgroup v2 is mounted")
	}
	groups, err := os.ReadFile(self)
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(groups)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			below, err := filepath.Rel(base, path)
			if err != nil || strings.HasPrefix(below, "..") {
				return "", false, errors.New("the server's cgroup v2 is not mounted")
			}
			return filepath.Join(mount, below), below == ".", nil
		}
	}
	return "", false, errors.New("the server is in no cgroup v2")
}

// divide enables the controllers for groups below dir. That is not possible for
// a group with processes, so the server moves to a new group below it.
func divide(dir string) error {
	enable := func() error { return set(dir, "cgroup.subtree_control", "+memory +pids") }
	err := enable()
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	leaf := filepath.Join(dir, "millrace-server")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := set(leaf, "cgroup.procs", strconv.Itoa(os.Getpid())); err != nil {
		return err
	}
	if err := enable(); err != nil {
		return errors.Join(err, set(dir, "cgroup.procs", strconv.Itoa(os.Getpid())), os.Remove(leaf))
	}
	return nil
}

func set(dir, name, value string) error {
	return os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644)
}

func (g *cgroups) close() {
	if g != nil {
		_ = os.Remove(g.dir)
	}
}

// cgroup is the group of one interpreter.
type cgroup struct {
	dir  string
	open *os.File
}

// group creates the group of an interpreter, or returns nil if g is nil.
func (g *cgroups) group(name string, memory int64) (*cgroup, error) {
	if g == nil {
		return nil, nil
	}
	c := &cgroup{dir: filepath.Join(g.dir, name)}
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return nil, err
	}
	err := errors.Join(
		set(c.dir, "memory.max", strconv.FormatInt(memory, 10)), set(c.dir, "memory.oom.group", "1"),
		set(c.dir, "pids.max", strconv.Itoa(maxProcesses)))
	if _, e := os.Stat(filepath.Join(c.dir, "memory.swap.max")); e == nil {
		err = errors.Join(err, set(c.dir, "memory.swap.max", "0"))
	}
	if err == nil {
		c.open, err = os.Open(c.dir)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// enter makes a child start in the group.
func (c *cgroup) enter(attr *syscall.SysProcAttr) {
	if c != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(c.open.Fd())
	}
}

// outOfMemory reports whether the kernel killed the group for its memory.
func (c *cgroup) outOfMemory() bool {
	if c == nil {
		return false
	}
	events, _ := os.ReadFile(filepath.Join(c.dir, "memory.events"))
	return field(events, "\noom_kill ") > 0
}

// close kills what is left in the group and removes it.
func (c *cgroup) close() {
	if c == nil {
		return
	}
	_ = set(c.dir, "cgroup.kill", "1")
	if c.open != nil {
		_ = c.open.Close()
	}
	for range 50 { // until the last process has ended
		if err := os.Remove(c.dir); !errors.Is(err, syscall.EBUSY) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}
