package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"millrace/functions/sandbox"
	"millrace/localstack/examples"
)

// pack writes an example below work and creates its flow_spec and zip with the
// authoring package, like an author.
func pack(ctx context.Context, python, work, flow string) (spec json.RawMessage, zip []byte, err error) {
	library := filepath.Join(work, "python")
	source := filepath.Join(work, "flows", flow)
	if _, err := os.Stat(library); errors.Is(err, fs.ErrNotExist) {
		if err := os.CopyFS(library, sandbox.Python()); err != nil {
			return nil, nil, err
		}
	}
	files, err := fs.Sub(examples.Flows(), flow)
	if err != nil {
		return nil, nil, err
	}
	if err := os.CopyFS(source, files); err != nil {
		return nil, nil, err
	}
	author := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, cmp.Or(python, "python3"), append([]string{"-B", "-m", "millrace"}, args...)...)
		cmd.Dir = source
		cmd.Env = append(os.Environ(), "PYTHONPATH="+library)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("python -m millrace %s: %w: %s", args[0], err, stderr.Bytes())
		}
		return out, nil
	}
	if spec, err = author("spec", "flow.py"); err != nil {
		return nil, nil, err
	}
	archive := filepath.Join(work, flow+".zip")
	if _, err := author("pack", ".", "-o", archive); err != nil {
		return nil, nil, err
	}
	zip, err = os.ReadFile(archive)
	return spec, zip, err
}
