package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

// procMemory reads a process's figure of /proc, such as VmRSS or VmHWM, in bytes.
// Errors: there is no /proc.
func procMemory(pid int, name string) (int64, error) {
	kb, err := procField(pid, "status", name)
	return kb << 10, err
}

// written is what a process has made the disk write, in bytes; 0 where that
// cannot be told.
func written(pid int) int64 {
	n, err := procField(pid, "io", "write_bytes")
	if err != nil {
		return 0
	}
	return n
}

// procField reads the number behind "name:" in a file of /proc.
func procField(pid int, file, name string) (int64, error) {
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			if fields := strings.Fields(rest); len(fields) > 0 {
				return strconv.ParseInt(fields[0], 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("no %s in %s", name, path)
}

// processor is the processor time that a process has used.
func processor(pid int) (time.Duration, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, and may hold anything.
	_, rest, found := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("unreadable /proc/%d/stat", pid)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}
