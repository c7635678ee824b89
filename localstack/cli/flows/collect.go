package flows

import (
	"context"
	"crypto/sha256"
	_ "embed" // collect.py
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	python "millrace/functions/sandbox"
)

//go:embed collect.py
var collectSource string

// code is what is deployed: the flows of some files, and the zip of their folder.
type code struct {
	Root  string `json:"root"`
	Files int    `json:"files"`
	Flows []struct {
		Name string          `json:"name"`
		Spec json.RawMessage `json:"spec"`
	} `json:"flows"`
	Error string `json:"error"`
	zip   []byte
}

// collect has Python import a file, or the files of a folder, and make the zip. What
// they print goes to log. Errors: no file, no Python, no flow, and what Python raised.
func collect(ctx context.Context, path string, log io.Writer) (*code, error) {
	files, err := sources(path)
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "millrace-deploy-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	library := filepath.Join(work, "library")
	if err := os.CopyFS(library, python.Python()); err != nil {
		return nil, err
	}
	archive, answer := filepath.Join(work, "artifact.zip"), filepath.Join(work, "answer.json")
	cmd := exec.CommandContext(ctx, "python3", append([]string{"-c", collectSource, archive, answer}, files...)...)
	// Bytecode of the user's files would be new in their folder each time.
	cmd.Env = append(os.Environ(), "PYTHONPATH="+library, "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("deploying takes python3, 3.10 or newer, on PATH: %w", err)
	}
	data, err := os.ReadFile(answer)
	if err != nil {
		return nil, err
	}
	var c code
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("python3 answered %q: %w", data, err)
	}
	switch {
	case c.Error != "":
		return nil, errors.New(c.Error)
	case len(c.Flows) == 0:
		return nil, fmt.Errorf("%s has no flow: a function with @flow (see millrace init)", path)
	}
	c.zip, err = os.ReadFile(archive)
	return &c, err
}

// sources are the files to import: the file itself, or those of the folder but tests.
func sources(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		if filepath.Ext(path) != ".py" {
			return nil, fmt.Errorf("%s is no Python file", path)
		}
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		if !e.Type().IsRegular() || filepath.Ext(name) != ".py" || strings.HasPrefix(name, "test_") || name == "conftest.py" || name == "setup.py" {
			continue
		}
		file := filepath.Join(path, name)
		// A module that has nothing to do with flows may be a script that does things.
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(source), "millrace") {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Python file in %s imports millrace", path)
	}
	slices.Sort(files)
	return files, nil
}

// version is that of the content: git's where the folder is clean, else a hash.
func (c *code) version(ctx context.Context) string {
	git := func(args ...string) (string, bool) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", c.Root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	if changes, ok := git("status", "--porcelain", "--", "."); ok && changes == "" {
		// A folder that git ignores is clean, too, and has no version of it.
		if tracked, ok := git("ls-files", "--", "."); ok && tracked != "" {
			if name, ok := git("describe", "--tags", "--always"); ok && validVersion(name) {
				return name
			}
		}
	}
	sum := sha256.New()
	sum.Write(c.zip)
	for _, f := range c.Flows {
		sum.Write(f.Spec)
	}
	return "c-" + hex.EncodeToString(sum.Sum(nil)[:6])
}

// validVersion reports whether the API takes it as a name.
func validVersion(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", r)
	})
}
