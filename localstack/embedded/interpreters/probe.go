package interpreters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// oldest is the minimum minor version of Python 3.
const oldest = 10

// Check reports why tasks cannot run with an interpreter: it does not exist,
// does not start, or is not Python 3.10 or newer. It does not try to isolate
// tasks, see [Pool.Mode].
func Check(ctx context.Context, python string) error {
	_, err := probe(ctx, python)
	return err
}

// probe starts an interpreter and returns the path of its executable, which is not
// that of a shim.
func probe(ctx context.Context, name string) (executable string, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	// The format is the same in Python 2.
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

// reason returns the last line that a failed interpreter wrote, or its error.
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
