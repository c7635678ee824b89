package interpreters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// oldest is the first minor version of Python 3 that tasks run on.
const oldest = 10

// Check reports why tasks cannot run on an interpreter: it does not exist, does not
// start, is no Python or one older than 3.10. How tasks are isolated with it is not
// tried, see [Pool.Mode].
func Check(ctx context.Context, python string) error {
	_, err := probe(ctx, python)
	return err
}

// probe starts an interpreter and returns the path of its executable, which is not
// that of a shim.
func probe(ctx context.Context, name string) (executable string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// Of a form that Python 2 prints alike.
	out, err := exec.CommandContext(ctx, name, "-I", "-S", "-c",
		`import sys; print("%d.%d.%d %s" % (sys.version_info[:3] + (sys.executable,)))`).Output()
	if err != nil {
		return "", fmt.Errorf("%s does not run: %w", name, reason(ctx, err))
	}
	var major, minor, patch int
	version, executable, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n != 3 || executable == "" {
		return "", fmt.Errorf("%s is no Python interpreter", name)
	}
	if major < 3 || major == 3 && minor < oldest {
		return "", fmt.Errorf("%s is Python %s, and tasks need 3.%d or newer", name, version, oldest)
	}
	return executable, nil
}

// reason is what an interpreter that failed wrote last, or else how it failed.
func reason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e, ok := errors.AsType[*exec.Error](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		lines := strings.Split(strings.TrimSpace(string(e.Stderr)), "\n")
		return errors.New(cmp.Or(strings.TrimSpace(lines[len(lines)-1]), e.String()))
	}
	return errors.Join(errors.Unwrap(err))
}
