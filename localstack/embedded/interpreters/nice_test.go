//go:build unix

package interpreters_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTasksHaveLowerPriority than the server, whatever the server's own
// priority.
func TestTasksHaveLowerPriority(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("nice").Output()
	require.NoError(t, err)
	own, err := strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	r := newRig(t)
	result, _ := r.run(t, r.request(t, `
import os
def priority():
    read, write = os.pipe()
    if os.fork() == 0:
        os.write(write, str(os.nice(0)).encode())
        os._exit(0)
    return [os.nice(0), int(os.read(read, 10))]
`, "priority"))
	nice := min(own+10, 19)
	assert.JSONEq(t, fmt.Sprintf("[%d, %d]", nice, nice), output(t, result))
}
