package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Resource usage of a program, from Linux's /proc. On other systems every
// function returns an error.

// tick is the unit of processor time, the same on every Linux.
const tick = 10 * time.Millisecond

// Resident returns the program's resident memory in bytes.
func (c *Child) Resident() (int64, error) {
	kb, err := c.figure("status", "VmRSS")
	return kb << 10, err
}

// Peak returns the program's peak memory in bytes.
func (c *Child) Peak() (int64, error) {
	kb, err := c.figure("status", "VmHWM")
	return kb << 10, err
}

// Written returns the bytes that the program has caused to be written to disk.
func (c *Child) Written() (int64, error) { return c.figure("io", "write_bytes") }

// Processor returns the processor time that the program has used.
func (c *Child) Processor() (time.Duration, error) {
	path := c.proc("stat")
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	// The second field is the name in parentheses, and may contain anything.
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("unreadable %s", path)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * tick, err
}

// figure returns the number after "name:" in a file.
func (c *Child) figure(file, name string) (int64, error) {
	path := c.proc(file)
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

func (c *Child) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", c.PID(), file)
}
