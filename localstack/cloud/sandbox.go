package cloud

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	python "millrace/functions/sandbox"
	"millrace/localstack/runtimeapi"
)

// runtimePy plays the part of AWS's Python runtime: it calls the handler.
//
//go:embed runtime.py
var runtimePy string

// RoleSecret is the credential that a sandbox function's environment holds, as
// Lambda gives one to every function. No task may see it.
const RoleSecret = "secret-of-the-sandboxes-role"

// invoke is Lambda's Invoke: of a function of the catalog, or of a sandbox
// function, which has an environment for each tenant.
func (c *Cloud) invoke(w http.ResponseWriter, r *http.Request) {
	payload, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	name, tenant := r.PathValue("name"), r.Header.Get("X-Amz-Tenant-Id")
	// Lambda goes on with an event whose caller has left.
	ctx := c.running
	var answer *runtimeapi.Answer
	if tier, sandboxed := strings.CutPrefix(name, sandboxPrefix); sandboxed {
		if tenant == "" {
			w.Header().Set("X-Amzn-Errortype", "InvalidParameterValueException")
			http.Error(w, `{"message":"Add a valid tenant ID in your request and try again."}`, http.StatusBadRequest)
			return
		}
		event := runtimeapi.Event{Payload: payload, Timeout: 15 * time.Minute, Tenant: tenant, ARN: arn(name)}
		answer, err = c.run(ctx, name+" of "+tenant, event, func() (*environment, error) { return c.interpreter(tier) })
	} else {
		answer, err = c.Invoke(ctx, name, payload)
	}
	w.Header().Set("Content-Type", "application/json")
	var fault *runtimeapi.Fault
	switch {
	case errors.As(err, &fault):
		w.Header().Set("X-Amz-Function-Error", "Unhandled")
		_ = json.NewEncoder(w).Encode(fault) // the client may be gone
		return
	case err != nil:
		c.t.Logf("invoke %s: %v", name, err)
		http.Error(w, `{"message":"no answer"}`, http.StatusInternalServerError)
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(w, answer.Body) // the client may be gone
}

// interpreter starts an environment of a sandbox function: the handler's files
// and Python, and what Lambda puts into every environment.
func (c *Cloud) interpreter(tier string) (*environment, error) {
	dir, err := os.MkdirTemp(c.t.TempDir(), tier+"-")
	if err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "task")
	if err := os.CopyFS(root, python.Python()); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o777); err != nil {
		return nil, err
	}
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		return nil, err
	}
	return spawn(c.running, []string{interpreter, "-c", runtimePy}, root,
		"_HANDLER="+python.Handler, "LAMBDA_TASK_ROOT="+root, "TMPDIR="+filepath.Join(dir, "tmp"), "PATH="+os.Getenv("PATH"),
		"AWS_ACCESS_KEY_ID=role", "AWS_SECRET_ACCESS_KEY="+RoleSecret, "AWS_SESSION_TOKEN="+RoleSecret)
}
