package serving

import (
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConstant(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		line       string
		begin, end uintptr
		want       bool
	}{
		"code":              {"00400000-01a97000 r-xp 00000000 fe:00 7           /opt/millrace", 0x400000, 0x1a97000, true},
		"constants":         {"01a97000-0321c000 r--p 01697000 fe:00 7           /opt/millrace", 0x1a97000, 0x321c000, true},
		"variables":         {"0321c000-03316000 rw-p 02e1c000 fe:00 7           /opt/millrace", 0x321c000, 0x3316000, false},
		"another file":      {"7f0000000000-7f0000001000 r--p 00000000 fe:00 9   /opt/millrace.db", 0, 0, false},
		"no file":           {"c000000000-c001400000 rw-p 00000000 00:00 0 ", 0, 0, false},
		"a file with space": {"00400000-01a97000 r-xp 00000000 fe:00 7           /opt/mill race", 0, 0, false},
		"empty":             {"", 0, 0, false},
	} {
		begin, end, ok := constant(tc.line, "/opt/millrace")
		assert.Equal(t, tc.want, ok, name)
		if begin != 0 {
			assert.Equal(t, []uintptr{tc.begin, tc.end}, []uintptr{begin, end}, name)
		}
	}
}

// Not parallel: other tests would map pages again.
func TestProgramIsUnmapped(t *testing.T) {
	before := mapped(t)
	unmapProgram()
	after := mapped(t)
	assert.Less(t, after, before)
	assert.Positive(t, after, "pages in use are mapped again")
}

// mapped returns the kilobytes of mapped files in the process's memory.
func mapped(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	found := regexp.MustCompile(`RssFile:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found)
	n, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return n
}
