package objectstore

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/versity/versitygw/debuglogger"
)

// TestGatewayErrorsAreLogged: the gateway writes nothing to stderr in its own
// format. The variable os.Stderr belongs to the process, so the test is not
// parallel.
func TestGatewayErrorsAreLogged(t *testing.T) {
	var log bytes.Buffer
	restore, err := divertStderr(slog.New(slog.NewJSONHandler(&log, nil)))
	require.NoError(t, err)
	debuglogger.InternalError(os.ErrPermission)
	debuglogger.Panic(assert.AnError)
	debuglogger.InternalError(os.NewSyscallError("two\nlines", os.ErrClosed))
	debuglogger.InternalError(errUnexpected{})
	restore()
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	require.Len(t, lines, 3, log.String())
	assert.Contains(t, lines[0], `"level":"ERROR","msg":"object store: request failed","kind":"internal error","error":"permission denied"`)
	assert.Contains(t, lines[1], `"kind":"panic","error":"`+assert.AnError.Error())
	assert.Contains(t, lines[2], `two\nlines: file already closed`)
}

func TestOtherStderrOutputIsPassedOn(t *testing.T) {
	t.Parallel()
	var log, other bytes.Buffer
	readErrors(strings.NewReader("one\n\x1b[31m[INTERNAL ERROR]: boom\x1b[0m\ntwo"), &other, slog.New(slog.NewTextHandler(&log, nil)))
	assert.Equal(t, "one\ntwo", other.String())
	assert.Equal(t, 1, strings.Count(log.String(), "boom"))
	assert.NotContains(t, log.String(), "\x1b")
}

// errUnexpected is the error of a disconnected client.
type errUnexpected struct{}

func (errUnexpected) Error() string { return "unexpected EOF" }
