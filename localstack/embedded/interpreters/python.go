//go:build unix

package interpreters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	python "millrace/functions/sandbox"
)

// mode is an isolation mode.
type mode struct {
	name          string // namespaces or plain
	ownUser       bool   // runs with a user and group that no other interpreter has
	userNamespace bool
}

// plainUser reports whether only the child's own user tells which processes it
// started.
func (m mode) plainUser() bool { return m.ownUser && m.name == "plain" }

// String returns the mode as Pool.Mode does.
func (m mode) String() string {
	switch {
	case m.userNamespace:
		return "user " + m.name
	case m.ownUser:
		return m.name + ", a user for each slot"
	}
	return m.name
}

// environment is a child's environment; the runner adds HOME and TMPDIR.
var environment = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TZ=UTC"}

var flags = []string{"-I", "-S", "-B"}

const bootCode = "import sys; sys.path.insert(0, sys.argv[1]); from runner.init import init; init(); from runner.local import main; main()"

// installation tells how to start children on this machine.
type installation struct {
	python  string // the executable itself, not a shim
	version string
	library string // directory of the Python tree
	venv    venv   // of a configured interpreter; zero if it has none
	mode    mode
	root    string // directory of artifacts and scratch
	cgroups *cgroups
}

// candidates returns the interpreters to try: each python3 on PATH, with shims
// resolved.
func candidates(ctx context.Context, configured string) ([]string, error) {
	names := []string{configured}
	if configured == "" {
		names = nil
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			name := filepath.Join(dir, "python3")
			if info, err := os.Stat(name); err == nil && filepath.IsAbs(dir) && !info.IsDir() && info.Mode()&0o111 != 0 {
				names = append(names, name)
			}
		}
	}
	var found []string
	for _, name := range names {
		executable, err := probe(ctx, name)
		if err != nil && configured != "" {
			return nil, err
		}
		if err == nil && !slices.Contains(found, executable) {
			found = append(found, executable)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("Python tasks need python3, version 3.10 or newer, and none was found")
	}
	return found, nil
}

// writeLibrary writes the embedded Python tree below dir, once for each
// content, and returns its directory.
func writeLibrary(dir string) (string, error) {
	tree := python.Python()
	sum := sha256.New()
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		return "", err
	}
	library := filepath.Join(dir, "library-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	if _, err := os.Stat(library); err == nil {
		return library, nil
	}
	temp, err := os.MkdirTemp(dir, ".library-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	if err := os.CopyFS(temp, tree); err != nil {
		return "", err
	}
	if err := readable(temp); err != nil {
		return "", err
	}
	return library, os.Rename(temp, library)
}

// compile creates the bytecode of the library, which children may not write. It
// only speeds up their start, so errors are ignored.
func compile(ctx context.Context, executable, library string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, executable, "-I", "-S", "-m", "compileall", "-q", library)
	cmd.Env = environment
	if cmd.Run() == nil {
		_ = readable(library)
	}
}

// install finds the strictest mode that works here, by starting a child in it.
func (p *Pool) install(ctx context.Context) (*installation, error) {
	pythons, err := candidates(ctx, p.config.Python)
	if err != nil {
		return nil, err
	}
	var refusals []error
	for _, m := range modes() {
		if p.config.Isolated && m.name == Plain {
			refusals = append(refusals, fmt.Errorf("%s: it does not isolate tasks", m))
			continue
		}
		if p.config.only != "" && p.config.only != m.name {
			continue
		}
		if p.config.Network == NoNetwork && m.name == "plain" {
			refusals = append(refusals, fmt.Errorf("%s: it takes no network away", m))
			continue
		}
		root, err := p.rootFor(m)
		if err != nil {
			return nil, err
		}
		library, err := writeLibrary(root)
		if err != nil {
			return nil, fmt.Errorf("writing the Python library: %w", err)
		}
		for _, executable := range pythons {
			in := &installation{python: executable, library: library, mode: m, root: root, cgroups: p.cgroups}
			// Only a configured interpreter provides packages, not one found on PATH.
			if p.config.Python != "" {
				if in.venv, err = venvOf(ctx, executable); err != nil {
					refusals = append(refusals, err)
					continue
				}
			}
			compile(ctx, executable, library)
			child, err := p.start(ctx, in, key{}, library)
			if err != nil {
				if ctx.Err() != nil {
					return nil, context.Cause(ctx)
				}
				refusals = append(refusals, fmt.Errorf("%s, %s: %w", executable, m, err))
				continue
			}
			in.version = child.python
			child.discard()
			return in, nil
		}
	}
	return nil, fmt.Errorf("no Python interpreter can be started: %w", errors.Join(refusals...))
}

// rootFor returns the directory for a mode's artifacts and scratch: Dir, or one
// in the system's temporary directory if a plain child with another user could
// not reach Dir.
func (p *Pool) rootFor(m mode) (string, error) {
	if m.ownUser && m.name == "plain" && !traversable(p.config.Dir) {
		if p.temporary == "" {
			dir, err := os.MkdirTemp("", "millrace-python-")
			if err != nil {
				return "", err
			}
			p.temporary = dir
		}
		return p.temporary, os.Chmod(p.temporary, 0o711)
	}
	return p.config.Dir, nil
}

func traversable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return true
		}
		dir = parent
	}
}
