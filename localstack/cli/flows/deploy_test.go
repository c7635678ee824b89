package flows

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
)

func TestTheServerTellsWhatTasksRunOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   Runtime
		wrong  bool
	}{
		"told":        {200, `{"items":[{"name":"http","runtime":null},{"name":"python","runtime":{"platform":"linux/arm64","python_version":"3.13"}}]}`, Runtime{"linux/arm64", "3.13"}, false},
		"not told":    {200, `{"items":[{"name":"python"}]}`, Runtime{}, false},
		"not allowed": {403, `{"detail":"no"}`, Runtime{}, false},
		"older":       {404, `{"detail":"no"}`, Runtime{}, false},
		"no key":      {401, `{"detail":"no"}`, Runtime{}, true},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			fmt.Fprint(w, c.body)
		}))
		t.Cleanup(server.Close)
		on, err := RuntimeOf(t.Context(), &client.Client{BaseURL: server.URL})
		assert.Equal(t, c.want, on, name)
		assert.Equal(t, c.wrong, err != nil, name)
	}
}

// TestPackagesAreThoseForTheServer asks for a platform that has none.
func TestPackagesAreThoseForTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("flow.py", "from millrace import flow, task\n@task\ndef a(): return 1\n@flow\ndef f(): a()\n")
	write("requirements.txt", "anything==1\n")
	_, err := collect(t.Context(), dir, Runtime{"plan9/mips", "3.13"}, io.Discard)
	require.ErrorContains(t, err, "the platform 'plan9/mips' is not known")
	write("requirements.txt", "# none\n")
	made, err := collect(t.Context(), dir, Runtime{"linux/arm64", "3.13"}, io.Discard)
	require.NoError(t, err)
	require.Len(t, made.Flows, 1)
	assert.Equal(t, "flow.py", made.Flows[0].File)
	assert.Equal(t, []string{"flow.py:2"}, made.Flows[0].Lines)
	assert.NotEmpty(t, made.Zip)
}
