package telemetry_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/platform/telemetry"
)

const (
	parent  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
)

// TestParseTrace follows section 3.2 of W3C Trace Context and the cases of its
// validation suite.
func TestParseTrace(t *testing.T) {
	t.Parallel()
	long := strings.TrimPrefix(parent, "00")
	for _, c := range []struct{ name, header, want string }{
		{"sampled", parent, parent},
		{"not sampled", parent[:53] + "00", parent[:53] + "00"},
		{"random, of level 2", parent[:53] + "03", parent[:53] + "03"},
		{"flags of later versions", parent[:53] + "fd", parent[:53] + "01"},
		{"a later version", "cc" + long, parent},
		{"a later version with more", "cc" + long + "-what-the-future-will-be-like", parent},
		{"a later version with an empty rest", "cc" + long + "-", parent},

		{"nothing", "", ""},
		{"a word", "traceparent", ""},
		{"version 00 with more", parent + "-x", ""},
		{"version 00 with a dash", parent + "-", ""},
		{"a later version with more but no dash", "cc" + long + ".x", ""},
		{"the forbidden version", "ff" + long, ""},
		{"upper case in the version", "CC" + long, ""},
		{"no version", ".0" + long, ""},
		{"a trace of zeros", "00-" + strings.Repeat("0", 32) + "-" + spanID + "-01", ""},
		{"a span of zeros", "00-" + traceID + "-" + strings.Repeat("0", 16) + "-01", ""},
		{"upper case in the trace", strings.ToUpper(parent), ""},
		{"no hex in the trace", "00-." + traceID[1:] + "-" + spanID + "-01", ""},
		{"no hex in the span", "00-" + traceID + "-." + spanID[1:] + "-01", ""},
		{"no hex in the flags", parent[:53] + ".0", ""},
		{"a trace too long", "00-" + traceID + "1-" + spanID + "-01", ""},
		{"a trace too short", "00-" + traceID[1:] + "-" + spanID + "-01", ""},
		{"a span too short", "00-" + traceID + "-" + spanID[1:] + "-01", ""},
		{"flags too short", parent[:54], ""},
		{"other separators", strings.ReplaceAll(parent, "-", "_"), ""},
		{"space before", " " + parent, ""},
		{"space after", parent + " ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, ok := telemetry.ParseTrace(c.header)
			assert.Equal(t, c.want != "", ok)
			assert.Equal(t, c.want, got.String())
			assert.Equal(t, !ok, got.IsZero())
		})
	}
}

func TestTraceIDAndSpanID(t *testing.T) {
	t.Parallel()
	got, ok := telemetry.ParseTrace(parent)
	require.True(t, ok)
	assert.Equal(t, traceID, got.TraceID())
	assert.Equal(t, spanID, got.SpanID())
}

func TestNewTracesDiffer(t *testing.T) {
	t.Parallel()
	one, two := telemetry.NewTrace(), telemetry.NewTrace()
	assert.Regexp(t, regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`), one.String())
	assert.NotEqual(t, one.TraceID(), two.TraceID())
	assert.NotEqual(t, one.SpanID(), two.SpanID())
	again, ok := telemetry.ParseTrace(one.String())
	require.True(t, ok)
	assert.Equal(t, one, again)
}

func TestSpansOfATrace(t *testing.T) {
	t.Parallel()
	root, _ := telemetry.ParseTrace(parent)
	child := root.Child()
	assert.Equal(t, root.TraceID(), child.TraceID())
	assert.NotEqual(t, root.SpanID(), child.SpanID())
	assert.NotEqual(t, child, root.Child())

	attempt := root.Span("run-3-1")
	assert.Equal(t, traceID, attempt.TraceID())
	assert.Equal(t, attempt, child.Span("run-3-1"), "whoever asks gets the same span")
	assert.NotEqual(t, attempt, root.Span("run-3-2"))
	assert.True(t, telemetry.Trace{}.Span("run-3-1").IsZero())
}

// FuzzParseTrace checks that a parsed header is formatted as specified and
// parses to the same trace.
func FuzzParseTrace(f *testing.F) {
	for _, seed := range []string{parent, "", "cc" + parent[2:] + "-more", "ff" + parent[2:], parent + "-", strings.ToUpper(parent), strings.Repeat("0", 55), strings.Repeat("-", 55)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got, ok := telemetry.ParseTrace(header)
		if !ok {
			assert.Zero(t, got)
			return
		}
		assert.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-0[0-3]$`, got.String())
		assert.Equal(t, header[3:52], got.TraceID()+"-"+got.SpanID())
		again, ok := telemetry.ParseTrace(got.String())
		assert.True(t, ok)
		assert.Equal(t, got, again)
	})
}
