package objectstore

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Format in which the gateway writes an error to os.Stderr, its only output.
const (
	redText  = "\x1b[31m"
	endOfRed = "\x1b[0m"
)

// divertStderr redirects what the gateway writes to os.Stderr to a log, until
// restore is called. Other text is passed on; the log's own output and the
// runtime's do not use the variable.
func divertStderr(log *slog.Logger) (restore func(), err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	original := os.Stderr
	os.Stderr = w
	done := make(chan struct{})
	go func() {
		defer close(done)
		readErrors(r, original, log)
	}()
	return func() {
		os.Stderr = original
		_ = w.Close()
		<-done
		_ = r.Close()
	}, nil
}

// readErrors logs the gateway's errors in r and copies the rest to other.
func readErrors(r io.Reader, other io.Writer, log *slog.Logger) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if rest, ok := strings.CutPrefix(line, redText); ok {
			for err == nil && !strings.Contains(rest, endOfRed) { // a message of several lines
				line, err = lines.ReadString('\n')
				rest += line
			}
			logError(log, strings.TrimSuffix(strings.TrimSpace(rest), endOfRed))
		} else {
			fmt.Fprint(other, line)
		}
		if err != nil {
			return
		}
	}
}

// logError logs a message of the gateway. A client that disconnected while
// sending is not an error.
func logError(log *slog.Logger, text string) {
	kind, message, ok := strings.Cut(text, "]: ")
	if !ok {
		message = text
	}
	if message == io.ErrUnexpectedEOF.Error() {
		log.Debug("object store: request cut off", "error", message)
		return
	}
	log.Error("object store: request failed", "kind", strings.ToLower(strings.TrimPrefix(kind, "[")), "error", message)
}
