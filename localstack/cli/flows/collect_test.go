package flows

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFilesThatCannotBeDeployed(t *testing.T) {
	t.Parallel()
	const (
		start = "from millrace import flow, task\n@task\ndef a(): return 1\n"
		one   = start + "@flow(name='daily')\ndef one(): a()\n"
		two   = "@flow(name='daily')\ndef two(): a()\n"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"two flows of a name in a file": {map[string]string{"flow.py": one + two},
			"flow.py:6: FlowDefinitionError: two flows are named 'daily', the other one is at flow.py:4: give one another name, @flow(name=...)"},
		"two flows of a name in two files": {map[string]string{"a.py": one, "b.py": start + two},
			"b.py:4: FlowDefinitionError: two flows are named 'daily', the other one is at a.py:4: give one another name, @flow(name=...)"},
		"one flow that two files import": {map[string]string{"a.py": one, "b.py": "from a import one  # millrace\n"}, ""},
		"one file that is imported by two names": {map[string]string{
			"a.py": one, "b.py": "# millrace\nimport importlib.util as u\nspec = u.spec_from_file_location('other', __file__.replace('b.py', 'a.py'))\n" +
				"m = u.module_from_spec(spec)\nspec.loader.exec_module(m)\none = m.one\n",
		}, ""},
		"a name that is no module's": {map[string]string{"my-flow.py": one},
			"FlowDefinitionError: 'my-flow.py' cannot be imported: 'my-flow' is no name of a module; use letters, digits and _"},
		"a name of Python's": {map[string]string{"json.py": one},
			"FlowDefinitionError: 'json.py' cannot be imported: 'json' is the name of another module"},
		"a script that exits": {map[string]string{"flow.py": one + "import sys\nsys.exit(4)\n"},
			`flow.py:7: the file exits (4) when it is imported: put what runs it below if __name__ == "__main__":`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for file, text := range c.files {
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			made, err := collect(t.Context(), dir, Runtime{}, io.Discard)
			if c.want != "" {
				require.Error(t, err)
				assert.Contains(t, strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""), c.want)
				return
			}
			require.NoError(t, err)
			assert.Len(t, made.Flows, 1)
		})
	}
}

// stopper cancels a context at the first write.
type stopper struct{ cancel context.CancelFunc }

func (s stopper) Write(data []byte) (int, error) {
	s.cancel()
	return len(data), nil
}

// TestInterruptedImportIsNoError of the file or of Python.
func TestInterruptedImportIsNoError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "flow.py"), []byte("import millrace, time\nprint('here', flush=True)\ntime.sleep(600)\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	_, err := collect(ctx, dir, Runtime{}, stopper{cancel})
	require.ErrorIs(t, err, context.Canceled)
}
