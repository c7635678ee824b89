package proc

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFiguresOfProcess uses this process, for which some figures are known, and
// one that does not exist.
func TestFiguresOfProcess(t *testing.T) {
	t.Parallel()
	of := func(pid int) *Child { return &Child{cmd: &exec.Cmd{Process: &os.Process{Pid: pid}}} }
	none := of(1 << 30)
	_, err := none.Resident()
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = none.Processor()
	require.ErrorIs(t, err, os.ErrNotExist)
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		return // not on Linux
	}
	self := of(os.Getpid())
	resident, err := self.Resident()
	require.NoError(t, err)
	assert.Greater(t, resident, int64(1<<20), "bytes, not kilobytes")
	peak, err := self.Peak()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, peak, resident/2)
	used, err := self.Processor()
	require.NoError(t, err)
	assert.Less(t, used, time.Hour)
	_, err = self.figure("status", "Nothing")
	require.ErrorContains(t, err, "no Nothing in /proc/")
}
