package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDevDeploysAtEachSave saves, breaks and repairs a flow while dev watches
// its folder.
func TestDevDeploysAtEachSave(t *testing.T) {
	t.Parallel()
	project := filepath.Dir(dataDir(t))
	u := &user{t: t, dir: project}
	u.must("init")
	file := filepath.Join(project, "flow.py")
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	lines, stop := develop(t, project)

	save := func(old, new string) {
		text := strings.ReplaceAll(string(first), old, new)
		require.NotEqual(t, string(first), text)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	assert.Contains(t, lines.until(`deployment version \d+ in`), "daily dev-")
	assert.Contains(t, u.must("run", "daily", "-w"), "SUCCEEDED in ")

	save(`return item["units"] * 2`, `raise ValueError("boom")`)
	assert.Contains(t, lines.until(`deployed|version`), "deployment version 2 in")
	assert.Equal(t, 1, u.run("", "run", "daily", "-w").code)

	for wrong, change := range map[string][2]string{
		`flow\.py:\d+: SyntaxError: `:                                {"def extract(ctx, day):", "def extract(ctx, day:"},
		`flow\.py:21: FlowDefinitionError: tier is one of`:           {`name="daily")`, `name="daily", tier="huge")`},
		`flow\.py:21: body\.flow_spec\.parameters`:                   {`name="daily")`, `name="daily", parameters={"properties": {"day": {"type": "strin"}}})`},
		`flow\.py:1: ModuleNotFoundError: No module named 'nothing'`: {"from millrace", "import nothing\nfrom millrace"},
	} {
		save(change[0], change[1])
		lines.until(wrong)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(project, "lib"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(project, "lib", "__init__.py"), nil, 0o600))
	save("from millrace", "import lib\nfrom millrace")
	lines.until(`deployment version 3 in`)
	require.NoError(t, os.WriteFile(filepath.Join(project, "lib", "__init__.py"), []byte("n = 2\n"), 0o600))
	lines.until(`deployment version 4 in`)
	assert.Contains(t, u.must("retry", "last", "--failed", "--latest", "-w"), "reuses 1 of its tasks")
	assert.Equal(t, "16\n", u.must("output", "last", "load"))
	stop()
}

// TestDevTellsOfAnImportThatHangs: at which line, and a save or an interrupt ends it at
// once, whatever the import has started.
func TestDevTellsOfAnImportThatHangs(t *testing.T) {
	t.Parallel()
	project := filepath.Dir(dataDir(t))
	u := &user{t: t, dir: project}
	u.must("init")
	file := filepath.Join(project, "flow.py")
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	save := func(before string) { require.NoError(t, os.WriteFile(file, []byte(before+string(first)), 0o600)) }
	const started = "import subprocess\nprint('started', flush=True)\nsubprocess.run(['sleep', '50'])\n"

	save("import time\nprint('waits', flush=True)\ntime.sleep(600)\n")
	lines, stop := develop(t, project)
	lines.until(`^waits$`)
	lines.until(`flow\.py:3: this import takes long`)
	save("")
	assert.Contains(t, lines.until(`deployment version|Error|ended|cancel`), "daily dev-", "nothing is said of the one that was given up")

	save(started)
	lines.until(`^started$`)
	began := time.Now()
	stop()
	assert.Less(t, time.Since(began), 20*time.Second, "it waits for what the import has started")
}

// printed are the lines printed by a program.
type printed struct {
	t     *testing.T
	lines <-chan string
}

// until reads up to the first line that matches a pattern.
func (p printed) until(pattern string) string {
	p.t.Helper()
	var all []string
	for deadline := time.After(time.Minute); ; {
		select {
		case line, ok := <-p.lines:
			all = append(all, line)
			require.True(p.t, ok, "it ended: %q", all)
			if regexp.MustCompile(pattern).MatchString(line) {
				return line
			}
		case <-deadline:
			require.Fail(p.t, "no such line", "%s: %q", pattern, all)
		}
	}
}

// develop starts dev in a folder; stop interrupts it and waits for its end.
func develop(t *testing.T, dir string) (lines printed, stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "dev", dir, "--listen", "127.0.0.1:0", "--python-slots", "2")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := make(chan string, 100)
	go func() {
		defer close(read)
		for s := bufio.NewScanner(out); s.Scan(); {
			read <- s.Text()
		}
	}()
	ended := false
	stop = func() {
		ended = true
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		for range read { // read to its end
		}
		assert.NoError(t, cmd.Wait())
	}
	t.Cleanup(func() {
		if !ended {
			_ = cmd.Process.Kill() // after a failure of the test
			_ = cmd.Wait()
		}
	})
	return printed{t, read}, stop
}
