package proctest

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gonePatience is how long a process may take to end.
const gonePatience = 10 * time.Second

// Gone reports whether the process with an id has ended, even if it was not
// reaped yet.
func Gone(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return strings.Contains(string(stat), ") Z ")
	}
	process, err := os.FindProcess(pid)
	return err != nil || process.Signal(syscall.Signal(0)) != nil
}

// RequireGone waits until a process is [Gone].
func RequireGone(t testing.TB, pid int) {
	t.Helper()
	for deadline := time.Now().Add(gonePatience); !Gone(pid); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}
