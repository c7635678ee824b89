//go:build unix && !linux

package interpreters

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tree reads the resident memory of an interpreter's processes from ps. Shared
// memory counts for each of them.
type tree struct {
	root int
	uid  *int
}

func newTree(pid int, _ mode, uid *int) (*tree, error) { return &tree{root: pid, uid: uid}, nil }

func (t *tree) close() {}

// processes returns the live processes of the tree.
func (t *tree) processes() ([]process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ps", "-A", "-o", "pid=,ppid=,uid=,rss=").Output()
	if err != nil {
		return nil, err
	}
	var all []process
	for line := range strings.Lines(string(out)) {
		var numbers [4]int64
		for i, field := range strings.Fields(line) {
			if i < len(numbers) {
				numbers[i], _ = strconv.ParseInt(field, 10, 64)
			}
		}
		all = append(all, process{pid: int(numbers[0]), parent: int(numbers[1]), uid: int(numbers[2]), memory: numbers[3] << 10})
	}
	return descendants(all, t.root, t.uid), nil
}

func (t *tree) memory(processes []process, _ int64) (sum int64) {
	for _, p := range processes {
		sum += p.memory
	}
	return sum
}

// unlinked returns 0: only Linux shows open unnamed files.
func (t *tree) unlinked([]process, uint64) int64 { return 0 }

// filter returns "": seccomp exists only on Linux.
func filter() string { return "" }

// cgroups and cgroup exist only on Linux; nil ones bound nothing.
type (
	cgroups struct{}
	cgroup  struct{}
)

func ownCgroups() *cgroups { return nil }

func (*cgroups) group(string, int64) (*cgroup, error) { return nil, nil }

func (*cgroups) close() {}

func (*cgroup) enter(*syscall.SysProcAttr) {}

func (*cgroup) outOfMemory() bool { return false }

func (*cgroup) close() {}
