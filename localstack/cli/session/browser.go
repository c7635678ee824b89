package session

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
)

// Browse shows a URL in the user's browser. The URL holds no credential: other
// users of the machine see the arguments of processes.
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
	go func() { _ = cmd.Wait() }() // how it ends is the browser's
	return nil
}
