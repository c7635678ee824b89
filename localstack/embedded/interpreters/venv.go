//go:build unix

package interpreters

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// venv is the virtual environment that an interpreter belongs to.
type venv struct {
	Root string   `json:"root"`
	Site []string `json:"site"` // its package directories, those of the system too if it is configured so
}

// venvCode prints the venv as JSON, or null if there is none. Children run with
// -S and cannot find out.
const venvCode = `
import json, os, site, sys
found = None
if sys.prefix != sys.base_prefix:
    found = {"root": os.path.realpath(sys.prefix), "site": [os.path.realpath(p) for p in site.getsitepackages() if os.path.isdir(p)]}
print(json.dumps(found))
`

// venvOf returns the virtual environment of an interpreter, the zero venv if it
// has none.
func venvOf(ctx context.Context, executable string) (venv, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, executable, "-I", "-B", "-c", venvCode)
	cmd.Env, cmd.Dir = environment, "/"
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return venv{}, fmt.Errorf("asking %s for its packages: %w", executable, err)
	}
	// The environment's .pth files may print something first.
	lines := bytes.Split(bytes.TrimSpace(out), []byte{'\n'})
	var v *venv
	if err := json.Unmarshal(lines[len(lines)-1], &v); err != nil {
		return venv{}, fmt.Errorf("asking %s for its packages: %w", executable, err)
	}
	if v == nil {
		return venv{}, nil
	}
	return *v, nil
}

// mounts adds the environment's directories to the operator's mounts, whose own
// choice for one of them stands. A directory comes before those in it.
func (v venv) mounts(own []Mount) []Mount {
	out := slices.Clone(own)
	if v.Root == "" {
		return out
	}
	for _, dir := range append([]string{v.Root}, v.Site...) {
		same := func(m Mount) bool { return m.Path == dir }
		if (dir == v.Root || !within(dir, v.Root)) && !slices.ContainsFunc(out, same) {
			out = append(out, Mount{Path: dir})
		}
	}
	slices.SortFunc(out, func(a, b Mount) int { return strings.Compare(a.Path, b.Path) })
	return out
}
