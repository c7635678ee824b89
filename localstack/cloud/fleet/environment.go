package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"millrace/localstack/proc"
	"millrace/localstack/runtimeapi"
)

// environment is one process of a function.
type environment struct {
	key     string // function and tenant
	api     *runtimeapi.API
	process *proc.Child
	dir     string
	alive   context.Context // ends with the process; its cause is a *runtimeapi.Fault
}

// start starts a process of a function. Its environment contains only the
// function's variables and Lambda's: the address of the Runtime API, the
// location of the code, a folder for temporary files.
func (f *Fleet) start(function Function, tenant string) (*environment, error) {
	api, err := runtimeapi.Start()
	if err != nil {
		return nil, err
	}
	e := &environment{key: key(function.Name, tenant), api: api}
	if err := f.spawn(e, function); err != nil {
		_ = api.Close() // not used yet
		_ = os.RemoveAll(e.dir)
		return nil, fmt.Errorf("start %s: %w", function.Name, err)
	}
	return e, nil
}

func (f *Fleet) spawn(e *environment, function Function) (err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	if e.dir, err = os.MkdirTemp(f.dir, function.Name+"-"); err != nil {
		return err
	}
	root, tmp := filepath.Join(e.dir, "task"), filepath.Join(e.dir, "tmp")
	for _, dir := range []string{root, tmp} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	if function.Code != nil {
		if err := function.Code(root); err != nil {
			return err
		}
	}
	cmd := exec.Command(function.Command[0], function.Command[1:]...)
	cmd.Dir = root
	for name, value := range function.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "AWS_LAMBDA_RUNTIME_API="+e.api.Address(), "AWS_LAMBDA_FUNCTION_NAME="+function.Name,
		"LAMBDA_TASK_ROOT="+root, "TMPDIR="+tmp)
	if function.Memory > 0 {
		cmd.Env = append(cmd.Env, fmt.Sprintf("AWS_LAMBDA_FUNCTION_MEMORY_SIZE=%d", function.Memory))
	}
	slices.Sort(cmd.Env)
	var log io.Writer
	if f.log != nil {
		log = f.log(function.Name)
	}
	if e.process, err = proc.Start(cmd, log); err != nil {
		return err
	}
	alive, died := context.WithCancelCause(context.Background())
	e.alive = alive
	go func() {
		<-e.process.Exited()
		died(e.death(f.running))
	}()
	return nil
}

// death returns why a process ended.
func (e *environment) death(running context.Context) error {
	if running.Err() != nil {
		return context.Cause(running)
	}
	select {
	case fault := <-e.api.InitFaults():
		return fault
	default:
	}
	return &runtimeapi.Fault{Type: "Runtime.ExitError", Message: "the process ended: " + e.process.Ending()}
}

// end kills the process and removes its folder.
func (e *environment) end() {
	e.process.Kill()
	_ = errors.Join(e.api.Close(), os.RemoveAll(e.dir)) // neither is needed any more
}
