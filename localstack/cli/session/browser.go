package session

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// Browse opens a URL in the user's browser. The URL must not contain a credential:
// other users of the machine can read the arguments of processes.
func Browse(url string) error {
	program, args := "xdg-open", []string{url}
	switch {
	case runtime.GOOS == "darwin":
		program = "open"
	case runtime.GOOS == "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", url}
	case os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "":
		return errors.New("there is no display")
	}
	cmd := exec.Command(program, args...) //nolint:gosec,noctx // the server's own address; the browser outlives the command
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // its exit code is of no use
	return nil
}
