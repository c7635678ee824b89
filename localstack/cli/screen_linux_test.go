package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestTaskDoesNotControlTheTerminal reads what a task has written at a terminal: its
// log, and the errors of the server.
func TestTaskDoesNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const run = "01J5ZK3T9QH8C6W2V7N4B1M0XR"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/runs/"+run+"/logs" {
			fmt.Fprint(w, `{"events": [{"message": "\u001b]0;owned\u0007\u001b[2J\u001b[32mgreen", "level": "info", "timestamp": "2026-01-02T03:04:05Z", "task_name": "a"}]}`)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail": "no \u001b[3J"}`)
	}))
	t.Cleanup(server.Close)
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"log":   {[]string{"logs", run}, 0, "a: \\u001b]0;owned\\u0007\\u001b[2J\x1b[32mgreen\x1b[0m\r\n"},
		"error": {[]string{"flows", "delete", "x"}, 6, "millrace: no \\u001b[3J"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			screen, terminal := openTerminal(t)
			args := append(c.args, "--url", server.URL, "--api-key", "k")
			assert.Equal(t, c.code, execute(t.Context(), Command("1"), args, terminal, terminal))
			require.NoError(t, terminal.Close())
			var seen bytes.Buffer
			_, _ = io.Copy(&seen, screen) // ends with EIO
			assert.Contains(t, seen.String(), c.want)
		})
	}
}

// openTerminal returns both ends of a terminal: what is written to the second is read
// from the first.
func openTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile("/dev/pts/"+strconv.Itoa(number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return screen, terminal
}
