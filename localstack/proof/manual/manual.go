// Package manual writes the pages of functions/console/docs: the tables in
// them, from the code, and the HTML that the console serves, from the pages and
// from the READMEs of the Python side. It is not part of the deployment, so
// that no function contains a renderer.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// folder is the directory of the pages.
const folder = "functions/console/docs"

// page is one page as the console serves it.
type page struct {
	name    string   // the last part of its path below /docs
	title   string   // in the navigation
	sources []string // Markdown files of the repository, concatenated
}

var pages = []page{
	{"flow-spec", "flow_spec", []string{folder + "/flow-spec.md"}},
	{"python", "Python", []string{"functions/sandbox/README.md", "functions/sandbox/python/README.md"}},
	{"cli", "Command line", []string{folder + "/cli.md"}},
	{"limits", "Limits and errors", []string{folder + "/limits.md"}},
	{"access", "Access", []string{folder + "/access.md"}},
	{"workspaces", "Workspaces and audit log", []string{folder + "/workspaces.md"}},
	{"schedules", "Schedules", []string{folder + "/schedules.md"}},
	{"environments", "Environments", []string{folder + "/environments.md"}},
	{"sensors", "Sensors", []string{folder + "/sensors.md"}},
	{"backfills", "Backfills", []string{folder + "/backfills.md"}},
	{"notifications", "Notifications", []string{folder + "/notifications.md"}},
	{"local-and-server", "Local runs", []string{folder + "/local-and-server.md"}},
}

// Generated tables are between these lines of a page.
const (
	begin = "<!-- %s: written by make generate -->\n"
	end   = "<!-- end of %s -->\n"
)

// Files returns the content of all generated files of the repository at root,
// by path: each page with its tables updated, and its HTML. Errors: a page
// without the marks of a table; a broken link.
func Files(root string) (map[string]string, error) {
	files := map[string]string{}
	for path, tables := range map[string][]table{
		folder + "/flow-spec.md": flowSpec, folder + "/cli.md": commandLine, folder + "/limits.md": limits,
		folder + "/access.md": access,
	} {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		if files[path], err = fill(root, string(data), tables); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, p := range pages {
		html, err := render(p, func(path string) ([]byte, error) {
			if text, generated := files[path]; generated {
				return []byte(text), nil
			}
			return os.ReadFile(filepath.Join(root, path))
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		files[folder+"/pages/"+p.name+".html"] = html
	}
	return files, nil
}

// table is a generated part of a page.
type table struct {
	name  string
	write func(root string) (string, error)
}

// fill writes the tables between their marks.
func fill(root, text string, tables []table) (string, error) {
	for _, t := range tables {
		begin, end := fmt.Sprintf(begin, t.name), fmt.Sprintf(end, t.name)
		before, rest, found := strings.Cut(text, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			return "", fmt.Errorf("the marks of the table %q are gone", t.name)
		}
		content, err := t.write(root)
		if err != nil {
			return "", err
		}
		text = before + begin + content + end + after
	}
	return text, nil
}

// grid writes a Markdown table.
type grid struct{ strings.Builder }

func newGrid(heads ...string) *grid {
	g := &grid{}
	g.row(heads...)
	g.WriteString(strings.Repeat("| --- ", len(heads)) + "|\n")
	return g
}

func (g *grid) row(cells ...string) {
	for _, cell := range cells {
		fmt.Fprintf(g, "| %s ", strings.ReplaceAll(cell, "|", `\|`))
	}
	g.WriteString("|\n")
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}
