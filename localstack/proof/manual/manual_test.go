package manual

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/flows"
	"millrace/localstack/proof/localtest"
)

var update = flag.Bool("update", false, "write the generated files anew")

// root is the repository. The object store of other tests changes the working
// directory.
var root, _ = filepath.Abs(filepath.Join("..", "..", ".."))

// TestPagesAreUpToDate runs before the parallel tests, which read what it
// writes.
func TestPagesAreUpToDate(t *testing.T) {
	files, err := Files(root)
	require.NoError(t, err)
	require.Len(t, files, 4+len(pages))
	for path, want := range files {
		path = filepath.Join(root, path)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
			continue
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "%s is out of date: run make generate", path)
	}
	served, err := filepath.Glob(filepath.Join(root, folder, "pages", "*"))
	require.NoError(t, err)
	assert.Len(t, served, len(pages), "a page that nothing writes")
}

func TestLinksOfPagesAreValid(t *testing.T) {
	t.Parallel()
	files, err := Files(root)
	require.NoError(t, err)
	html := func(name string) string { return files[folder+"/pages/"+name+".html"] }
	link := regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	for _, p := range pages {
		text := html(p.name)
		assert.NotContains(t, text, "raw HTML omitted", p.name)
		for _, found := range link.FindAllStringSubmatch(text, -1) {
			to := found[1]
			if to == "../docs" || to == "data:," || strings.HasPrefix(to, "https://") {
				continue
			}
			name, id, _ := strings.Cut(to, "#")
			if name == "" {
				name = p.name
			}
			require.NotEmpty(t, html(name), "%s links to %s", p.name, to)
			if id != "" {
				assert.Contains(t, html(name), `id="`+id+`"`, "%s links to %s", p.name, to)
			}
		}
	}
}

func TestTableWithoutMarksIsError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "<!-- tiers: written by make generate -->\n"} {
		_, err := fill(root, text, limits[:1])
		assert.ErrorContains(t, err, `"tiers"`)
	}
	_, err := constants(root, "shared/platform/errs/errs.go", "No such group")
	assert.Error(t, err)
}

// TestExampleIsValidFlow registers the example of the page, as a reader would.
func TestExampleIsValidFlow(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, folder, "flow-spec.md"))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(page), "```json\n")
	require.True(t, found)
	spec, _, _ := strings.Cut(rest, "```")
	env := localtest.New(t, flows.Spec)
	env.Do(t, env.A.Key, "POST", "/flows", map[string]any{
		"flow_name": "stock", "flow_version": "1", "flow_spec": json.RawMessage(spec),
	}).Require(t, 200)
	env.Do(t, env.A.Key, "GET", "/flows/stock/latest", nil).Require(t, 200)
}
