package flows

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
)

//go:embed project/*.py project/requirements.txt
var project embed.FS

// projectFiles lists the files of a new project with their names.
var projectFiles = []struct{ name, source string }{
	{"flow.py", "flow.py"}, {"test_flow.py", "test_flow.py"}, {"requirements.txt", "requirements.txt"},
}

func initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [DIR]",
		Short: "Create a project: flow.py, test_flow.py, requirements.txt, .gitignore",
		Args:  command.Args(cobra.MaximumNArgs(1)),
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if err := os.MkdirAll(dir, 0o777); err != nil {
				return err
			}
			for _, file := range projectFiles {
				if _, err := os.Lstat(filepath.Join(dir, file.name)); !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%s is there already: nothing was written", filepath.Join(dir, file.name))
				}
			}
			for _, file := range projectFiles {
				content, err := project.ReadFile("project/" + file.source)
				if err != nil {
					return err
				}
				if err := os.WriteFile(filepath.Join(dir, file.name), content, 0o666); err != nil { //nolint:gosec // a user's source, by their umask
					return err
				}
			}
			if err := ignore(filepath.Join(dir, ".gitignore")); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "next, in %s: millrace dev, and press r\n", dir)
			return nil
		},
	}
}

// ignored lists the lines of a project's .gitignore.
var ignored = []string{".millrace/", "__pycache__/"}

// ignore adds missing lines to a .gitignore.
func ignore(file string) error {
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	have := strings.Split(string(content), "\n")
	if len(content) > 0 && content[len(content)-1] != '\n' {
		content = append(content, '\n')
	}
	for _, line := range ignored {
		if !slices.Contains(have, line) {
			content = append(content, line+"\n"...)
		}
	}
	return os.WriteFile(file, content, 0o666) //nolint:gosec // a user's file, by their umask
}
