package telemetry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/telemetrytest"
)

func TestLinesHaveSubjectOfContext(t *testing.T) {
	t.Parallel()
	trace, _ := telemetry.ParseTrace(parent)
	for _, c := range []struct {
		name    string
		subject telemetry.Subject
		want    telemetrytest.Line
	}{
		{"nothing known", telemetry.Subject{}, telemetrytest.Line{}},
		{"a request", telemetry.Subject{
			Function: "runs", Invocation: "i-1", ColdStart: true, RequestID: "r-1", Operation: "runs-create", Workspace: "acme", Trace: trace,
		}, telemetrytest.Line{
			"function": "runs", "aws_request_id": "i-1", "cold_start": true, "request_id": "r-1", "operation": "runs-create",
			"org_id": "acme", "trace_id": traceID, "span_id": spanID,
		}},
		{"an attempt", telemetry.Subject{Workspace: "acme", Run: "run-1", Task: "load", Attempt: 2}, telemetrytest.Line{
			"org_id": "acme", "run_id": "run-1", "task": "load", "attempt": 2.0,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log telemetrytest.Log
			log.Logger().ErrorContext(telemetry.With(t.Context(), &c.subject), "it failed", "cause", errors.New("disk full"))
			lines := log.Lines(t)
			require.Len(t, lines, 1)
			assert.NotEmpty(t, lines[0]["time"])
			delete(lines[0], "time")
			c.want["level"], c.want["msg"], c.want["cause"] = "ERROR", "it failed", "disk full"
			assert.Equal(t, c.want, lines[0])
		})
	}
}

func TestSubjectCanBeFilledInLater(t *testing.T) {
	t.Parallel()
	var log telemetrytest.Log
	subject := telemetry.Subject{RequestID: "r-1"}
	ctx := telemetry.With(t.Context(), &subject)
	subject.Workspace = "acme"
	log.Logger().InfoContext(ctx, "known")
	assert.Equal(t, "acme", log.Lines(t)[0]["org_id"])

	copied := telemetry.From(ctx)
	subject.Workspace = "other"
	assert.Equal(t, "acme", copied.Workspace, "From is a copy")
	assert.Zero(t, telemetry.From(context.Background()))
}

func TestLoggerWithoutContextHasNoSubject(t *testing.T) {
	t.Parallel()
	var log telemetrytest.Log
	log.Logger().With("queue", "runs").WithGroup("more").Warn("plain", "n", 1)
	line := log.Lines(t)[0]
	delete(line, "time")
	assert.Equal(t, telemetrytest.Line{"level": "WARN", "msg": "plain", "queue": "runs", "more": map[string]any{"n": 1.0}}, line)
}

func TestLevelAndFormat(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, telemetry.Text, slog.LevelWarn)
	ctx := telemetry.With(t.Context(), &telemetry.Subject{Run: "run-1"})
	log.InfoContext(ctx, "quiet")
	assert.Empty(t, out.String())
	assert.False(t, log.Enabled(ctx, slog.LevelInfo))
	log.WarnContext(ctx, "loud")
	assert.Contains(t, out.String(), "level=WARN msg=loud run_id=run-1\n")
}

type key string

// LogValue is how a type asks to be logged. This one leaks the key.
func (k key) LogValue() slog.Value { return slog.StringValue(string(k)) }

// TestCredentialsAreRedacted covers the last line of defence: the service never
// logs a credential on purpose.
func TestCredentialsAreRedacted(t *testing.T) {
	t.Parallel()
	token := "eyJhbGciOiJFUzI1NiJ9." + strings.Repeat("c2VjcmV0", 8) + ".c2lnbmF0dXJl-_"
	ticket := "eyJvIjoiYWNtZSJ9." + strings.Repeat("c2VjcmV0", 6)
	for _, c := range []struct{ name, text, want string }{
		{"an API key", "key svc_0123456789abcdefXYZ refused", "key svc_*** refused"},
		{"a sign-in token", "token " + token + " expired", "token *** expired"},
		{"the token of an attempt", "posting with " + ticket, "posting with ***"},
		{"a header", `Authorization: Bearer abc.def-123~x+/=`, `Authorization: Bearer ***`},
		{"a presigned link", "Put \"https://b.s3.test/k?X-Amz-Credential=AKIA%2F1&X-Amz-Security-Token=tok&X-Amz-Signature=0f0f\": EOF",
			"Put \"https://b.s3.test/k?X-Amz-Credential=***&X-Amz-Security-Token=***&X-Amz-Signature=***\": EOF"},
		{"a password in a URL", "dial postgres://user:hunter2@db:5432/x", "dial postgres://***@db:5432/x"},
		{"a reserved parameter", "parameter __svc_attempt_number is reserved", "parameter __svc_attempt_number is reserved"},
		{"an address of mail", "owner@a.test asked", "owner@a.test asked"},
		{"plain words", "the bearer of news", "the bearer of news"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log telemetrytest.Log
			logger := log.Logger()
			logger.Error(c.text)
			logger.Error("m", "v", c.text)
			logger.Error("m", "v", fmt.Errorf("wrapped: %w", errors.New(c.text)))
			logger.Error("m", "v", key(c.text))
			logger.Error("m", slog.Group("g", "v", c.text))
			logger.With("v", c.text).Error("m")
			lines := log.Lines(t)
			require.Len(t, lines, 6)
			assert.Equal(t, c.want, lines[0]["msg"])
			assert.Equal(t, c.want, lines[1]["v"])
			assert.Equal(t, "wrapped: "+c.want, lines[2]["v"])
			assert.Equal(t, c.want, lines[3]["v"])
			assert.Equal(t, map[string]any{"v": c.want}, lines[4]["g"])
			assert.Equal(t, c.want, lines[5]["v"])
		})
	}
}

type fault struct{ why string }

// Error names the reason, of which a nil fault has none.
func (f *fault) Error() string { return f.why }

// TestPanickingErrorIsLogged checks that logging does not panic.
func TestPanickingErrorIsLogged(t *testing.T) {
	t.Parallel()
	var log telemetrytest.Log
	log.Logger().Error("m", "error", (*fault)(nil), "run_id", "run-1")
	lines := log.Lines(t)
	require.Len(t, lines, 1)
	assert.Equal(t, []any{"<nil>", "run-1"}, []any{lines[0]["error"], lines[0]["run_id"]})
}

// BenchmarkLine measures a request's canonical log line, and one below the
// level.
func BenchmarkLine(b *testing.B) {
	trace, _ := telemetry.ParseTrace(parent)
	ctx := telemetry.With(b.Context(), &telemetry.Subject{Function: "runs", RequestID: "r-1", Operation: "runs-create", Workspace: "acme", Trace: trace})
	for _, c := range []struct {
		name  string
		level slog.Level
	}{{"written", slog.LevelInfo}, {"below", slog.LevelWarn}} {
		log := telemetry.NewLogger(discard{}, telemetry.JSON, c.level)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				log.LogAttrs(ctx, slog.LevelInfo, "request", slog.String("method", "POST"), slog.Int("status", 200))
			}
		})
	}
}

type discard struct{}

func (discard) Write(data []byte) (int, error) { return len(data), nil }
