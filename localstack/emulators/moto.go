package emulators

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
)

const motoVersion = "5.2.1"

var moto = program{
	name: "moto",
	command: func(ctx context.Context, port string) (*exec.Cmd, error) {
		where := []string{"-H", "127.0.0.1", "-p", port}
		if server, err := exec.LookPath("moto_server"); err == nil {
			return exec.Command(server, where...), nil
		}
		python, err := motoPython(ctx)
		if err != nil {
			return nil, err
		}
		return exec.Command(python, append([]string{"-m", "moto.server"}, where...)...), nil
	},
	ready: func(ctx context.Context, url string) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/moto-api/data.json", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil {
			return err
		}
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", req.URL, res.Status)
		}
		return nil
	},
}

// motoPython installs moto into a virtual environment and returns its
// interpreter. The environment's own scripts do not work, because they contain
// the path of the folder before it was renamed.
func motoPython(ctx context.Context) (string, error) {
	python := filepath.Join("bin", "python")
	dir, err := installed(ctx, "moto-"+motoVersion, func(ctx context.Context, dir string) error {
		if err := runIn(ctx, dir, "python3", "-m", "venv", "."); err != nil {
			return err
		}
		return runIn(ctx, dir, filepath.Join(dir, python), "-m", "pip", "install", "--quiet", "moto[server]=="+motoVersion)
	})
	return filepath.Join(dir, python), err
}

// StartMoto starts moto, an in-memory emulator of SQS, S3, EventBridge and KMS:
// the moto_server on the PATH, or else one it installs. The caller must Kill
// it.
func StartMoto(ctx context.Context) (*Process, error) { return moto.start(ctx) }
