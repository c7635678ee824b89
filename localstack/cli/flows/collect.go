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

	"millrace/localstack/cli/python"
)

//go:embed collect.py
var collectSource string

// Code is what is deployed: the flows of some files, and the zip of their folder.
type Code struct {
	Root  string `json:"root"`
	Files int    `json:"files"`
	Flows []Flow `json:"flows"`
	Error string `json:"error"`
	Zip   []byte `json:"-"`
}

// Flow is a flow in the code. File is relative to the root, "" if it is not known.
type Flow struct {
	Name  string          `json:"name"`
	File  string          `json:"file"`
	Line  int             `json:"line"`
	Spec  json.RawMessage `json:"spec"`
	Lines []string        `json:"lines"` // "flow.py:4" of each task in the spec, or ""
}

// Runtime is what runs the tasks: the packages of requirements.txt are those for it.
// The zero Runtime is this machine.
type Runtime struct {
	Platform string `json:"platform"`       // linux/arm64
	Python   string `json:"python_version"` // 3.13
}

// Collector is a Python process that waits for the files to import, so that its own
// start and imports do not count. It is used once.
type Collector struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// NewCollector starts the process in a folder, "" for that of this process. What the
// files print goes to log.
func NewCollector(ctx context.Context, library *python.Library, dir string, log io.Writer) (*Collector, error) {
	cmd := library.Command(ctx, "-c", collectSource)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, library.Missing(err)
	}
	return &Collector{cmd, stdin}, nil
}

// Close ends a process that was given nothing.
func (c *Collector) Close() error {
	return errors.Join(c.stdin.Close(), c.cmd.Wait())
}

// Collect imports a file, or the files of a folder, and makes the zip unless it is not
// asked for. Errors: no file, no Python, no flow, and what Python raised, with its file and
// line.
func (c *Collector) Collect(path string, on Runtime, zip bool) (_ *Code, err error) {
	files, err := sources(path)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	work, err := os.MkdirTemp("", "millrace-deploy-")
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	defer os.RemoveAll(work)
	answer := filepath.Join(work, "answer.json")
	request := map[string]any{"archive": nil, "answer": answer, "files": files, "platform": nil, "python_version": nil}
	archive := filepath.Join(work, "artifact.zip")
	if zip {
		request["archive"] = archive
	}
	if on != (Runtime{}) {
		request["platform"], request["python_version"] = on.Platform, on.Python
	}
	// One that has ended takes no line: its end tells more than that.
	_ = json.NewEncoder(c.stdin).Encode(request)
	if err := c.Close(); err != nil {
		return nil, fmt.Errorf("importing %s ended Python, which has to be 3.10 or newer: %w", path, err)
	}
	data, err := os.ReadFile(answer)
	if err != nil {
		return nil, fmt.Errorf("importing %s ended Python", path)
	}
	var made Code
	if err := json.Unmarshal(data, &made); err != nil {
		return nil, fmt.Errorf("python answered %q: %w", data, err)
	}
	switch {
	case made.Error != "":
		return nil, errors.New(made.Error)
	case len(made.Flows) == 0:
		return nil, fmt.Errorf("%s has no flow: a function with @flow (see millrace init)", path)
	case zip:
		made.Zip, err = os.ReadFile(archive)
	}
	return &made, err
}

// collect starts a [Collector] and has it collect.
func collect(ctx context.Context, path string, on Runtime, log io.Writer) (*Code, error) {
	library, err := python.NewLibrary("")
	if err != nil {
		return nil, err
	}
	defer func() { _ = library.Remove() }() // a temporary folder
	c, err := NewCollector(ctx, library, "", log)
	if err != nil {
		return nil, err
	}
	return c.Collect(path, on, true)
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
func (c *Code) version(ctx context.Context) string {
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
	return "c-" + c.Hash()
}

// Hash is of the content: twelve hexadecimal digits.
func (c *Code) Hash() string {
	sum := sha256.New()
	sum.Write(c.Zip)
	for _, f := range c.Flows {
		sum.Write(f.Spec)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// validVersion reports whether the API takes it as a name.
func validVersion(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", r)
	})
}
