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
	"time"

	"millrace/localstack/cli/output"
	"millrace/localstack/cli/python"
)

//go:embed collect.py
var collectSource string

// Code is what is deployed: flows and the zip of the folder with their files.
type Code struct {
	Root  string `json:"root"`
	Files int    `json:"files"`
	Flows []Flow `json:"flows"`
	Error string `json:"error"`
	Zip   []byte `json:"-"`
}

// Flow is a flow in the code. File is relative to the root, "" if unknown.
type Flow struct {
	Name  string          `json:"name"`
	File  string          `json:"file"`
	Line  int             `json:"line"`
	Spec  json.RawMessage `json:"spec"`
	Lines []string        `json:"lines"` // "flow.py:4" of each task in the spec, or ""
}

// Runtime is the platform that runs the tasks, for which the packages of
// requirements.txt are installed. The zero Runtime is this machine.
type Runtime struct {
	Platform string `json:"platform"`       // linux/arm64
	Python   string `json:"python_version"` // 3.13
}

// Collector is a Python process that was started in advance and waits for the files
// to import. It is used once.
type Collector struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stopped func() error // the error of the context that ends it, or nil
	work    string       // folder of the answer
}

// outputPatience is how long a process is waited for that the files have started and
// that keeps the output open, after Python has ended.
const outputPatience = 500 * time.Millisecond

// NewCollector starts the process in a folder, "" for the working directory. The
// output of the files is written to log.
func NewCollector(ctx context.Context, library *python.Library, dir string, log io.Writer) (*Collector, error) {
	cmd := library.Command(ctx, "-c", collectSource)
	cmd.Dir = dir
	cmd.Stdout, cmd.Stderr = output.Direct(log), output.Direct(log)
	cmd.WaitDelay = outputPatience
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "millrace-deploy-")
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		_ = os.RemoveAll(work) // it is empty
		return nil, library.Missing(err)
	}
	return &Collector{cmd, stdin, ctx.Err, work}, nil
}

// Close stops a process that is not needed.
func (c *Collector) Close() error {
	return errors.Join(c.end(), os.RemoveAll(c.work))
}

// end waits for the end of the process.
func (c *Collector) end() error {
	closed := c.stdin.Close() // which ends a process that has no request
	err := c.cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) { // Python itself has ended well
		err = nil
	}
	return errors.Join(closed, err)
}

// at is the file in which the process says where it is.
func (c *Collector) at() string { return filepath.Join(c.work, "at") }

// At returns what Collect is waiting for: the line of the user's that is being executed
// ("flow.py:3"), or "requirements.txt" for its packages; "" for what takes no long time.
// It may be called while Collect runs.
func (c *Collector) At() string {
	at, _ := os.ReadFile(c.at()) // it does not exist before and after
	return string(at)
}

// Collect imports a file, or the files of a folder, and creates the zip if zip is true.
// Errors: there is no file, no Python or no flow; Python's exceptions with file and line.
func (c *Collector) Collect(path string, on Runtime, zip bool) (_ *Code, err error) {
	files, err := sources(path)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	defer os.RemoveAll(c.work)
	answer := filepath.Join(c.work, "answer.json")
	request := map[string]any{"archive": nil, "answer": answer, "at": c.at(), "files": files, "platform": nil, "python_version": nil}
	archive := filepath.Join(c.work, "artifact.zip")
	if zip {
		request["archive"] = archive
	}
	if on != (Runtime{}) {
		request["platform"], request["python_version"] = on.Platform, on.Python
	}
	// If the process has ended, its exit status says more than this error.
	_ = json.NewEncoder(c.stdin).Encode(request)
	if err := c.end(); err != nil {
		if stopped := c.stopped(); stopped != nil {
			return nil, stopped
		}
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

// collect starts a [Collector] and calls Collect.
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

// sources returns the files to import: the file itself, or those of the folder except
// tests.
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
		// A file without flows may be a script, with side effects.
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(source), "millrace") {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Python file in %s imports millrace; folders below it are not searched, name a file of theirs", path)
	}
	slices.Sort(files)
	return files, nil
}

// version returns git's version if the folder is clean, otherwise a hash of the content.
func (c *Code) version(ctx context.Context) string {
	git := func(args ...string) (string, bool) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", c.Root}, args...)...).Output()
		return strings.TrimSpace(string(out)), err == nil
	}
	if changes, ok := git("status", "--porcelain", "--", "."); ok && changes == "" {
		// Git reports an ignored folder as clean, too.
		if tracked, ok := git("ls-files", "--", "."); ok && tracked != "" {
			if name, ok := git("describe", "--tags", "--always"); ok && validVersion(name) {
				return name
			}
		}
	}
	return "c-" + c.Hash()
}

// Hash returns a hash of the content: twelve hexadecimal digits.
func (c *Code) Hash() string {
	sum := sha256.New()
	sum.Write(c.Zip)
	for _, f := range c.Flows {
		sum.Write(f.Spec)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// validVersion reports whether the API accepts the name of a version.
func validVersion(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-", r)
	})
}
