// Package telemetrytest inspects logs and metrics in tests.
package telemetrytest

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry"
)

// Log collects what is written to it. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	data bytes.Buffer
}

// Write appends lines.
func (l *Log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Write(data)
}

// String returns everything written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.String()
}

// Logger returns a logger that writes JSON lines of every level to the Log.
func (l *Log) Logger() *slog.Logger {
	return telemetry.NewLogger(l, telemetry.JSON, slog.LevelDebug)
}

// Line is a JSON object.
type Line map[string]any

// Lines parses what was written. It ends the test if a line is not a JSON
// object or has a duplicate member.
func (l *Log) Lines(t testing.TB) []Line {
	t.Helper()
	return Lines(t, l.String())
}

// Lines parses text that consists of JSON objects, as [Log.Lines] does.
func Lines(t testing.TB, text string) []Line {
	t.Helper()
	var out []Line
	for data := range bytes.Lines([]byte(text)) {
		var line Line
		require.NoError(t, json.Unmarshal(data, &line), "%s", data)
		out = append(out, line)
	}
	return out
}

// Said returns the lines with the given message.
func (l *Log) Said(t testing.TB, message string) []Line {
	t.Helper()
	var out []Line
	for _, line := range l.Lines(t) {
		if line["msg"] == message {
			out = append(out, line)
		}
	}
	return out
}
