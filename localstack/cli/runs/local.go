package runs

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/flows"
	"millrace/localstack/cli/output"
	"millrace/localstack/cli/python"
)

// stopPatience is how long an interrupted local run may take to stop its tasks.
const stopPatience = 10 * time.Second

// local runs a flow on this machine, without a server. name is a flow of this folder,
// or flow.py, flow.py:name, package.module:name.
func (o *starting) local(c *cobra.Command, name string) (err error) {
	if o.environment != "" || o.tier != "" {
		return command.Usagef("--local runs a flow without a server: there is no --env or --tier for it")
	}
	library, err := python.NewLibrary("")
	if err != nil {
		return err
	}
	defer func() { _ = library.Remove() }() // a temporary folder
	file := name
	if !strings.Contains(name, ":") && filepath.Ext(name) != ".py" {
		if file, err = flowFile(c, library, name); err != nil {
			return err
		}
	}
	args := []string{"-m", "millrace", "run", file}
	if o.file != "" {
		args = append(args, "--params", o.file)
	}
	for _, text := range o.params {
		if name, _, ok := strings.Cut(text, "="); !ok || name == "" {
			return command.Usagef("-p takes k=v, not %q", text)
		}
		args = append(args, "--param", text)
	}
	cmd := library.Command(c.Context(), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.InOrStdin(), output.Direct(c.OutOrStdout()), output.Direct(c.ErrOrStderr())
	// Killed, Python could not stop the processes of its tasks.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopPatience
	err = cmd.Run()
	if c.Context().Err() != nil {
		return command.Exit(command.Interrupted) // Python has said so
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		if ended.ExitCode() == command.TimedOut {
			return command.Exit(command.TimedOut)
		}
		return command.Exit(command.Failure) // Python has printed the error
	}
	if err != nil {
		return library.Missing(err)
	}
	return nil
}

// flowFile returns the file of this folder that defines a flow.
func flowFile(c *cobra.Command, library *python.Library, name string) (string, error) {
	collector, err := flows.NewCollector(c.Context(), library, "", c.ErrOrStderr())
	if err != nil {
		return "", err
	}
	code, err := collector.Collect(".", flows.Runtime{}, false)
	if err != nil {
		return "", err
	}
	var known []string
	for _, f := range code.Flows {
		if f.Name == name && f.File != "" {
			return filepath.Join(code.Root, f.File) + ":" + name, nil
		}
		known = append(known, f.Name)
	}
	return "", &command.Error{Code: command.NotFound, Err: fmt.Errorf("there is no flow %s in this folder, only %s", name, strings.Join(known, ", "))}
}
