package serving

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmapProgram returns the pages of the program's own file, its code and
// constants, to the operating system. It reads those that are used again from
// its cache of files. After the start of a server, most are used no more.
func unmapProgram() {
	file, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		if begin, end, ok := constant(lines.Text(), file); ok {
			// Only advice: whatever cannot be unmapped stays.
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin, end-begin, unix.MADV_DONTNEED)
		}
	}
}

// constant parses a line of /proc/self/maps, see proc_pid_maps(5). It reports
// whether the range is of file and cannot be written, so that unmapping loses
// nothing.
func constant(line, file string) (begin, end uintptr, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || fields[5] != file {
		return 0, 0, false
	}
	var permissions string
	if _, err := fmt.Sscanf(line, "%x-%x %s", &begin, &end, &permissions); err != nil {
		return 0, 0, false
	}
	return begin, end, permissions == "r-xp" || permissions == "r--p"
}
