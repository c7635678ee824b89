package telemetry

import (
	"log/slog"
	"sync"
	"time"
)

// SpanKind is the role of a span in its trace.
type SpanKind int

// The kinds, by their numbers in OpenTelemetry.
const (
	Internal SpanKind = 1
	Server   SpanKind = 2
)

// Span is a piece of work that has ended.
type Span struct {
	Trace      Trace // the trace, and the span's own id
	Parent     Trace // the same trace with the parent's id; zero: the span is the trace's root
	Name       string
	Kind       SpanKind
	Start, End time.Time
	Error      string      // type of the error; empty: there was none
	Attrs      []slog.Attr // texts and integers, without secrets
}

// maxSpans is the most spans that wait for their export.
const maxSpans = 2048

// Spans collects the spans that are to be exported. A nil Spans discards them.
// It is safe for concurrent use.
type Spans struct {
	mu      sync.Mutex
	waiting []Span
	dropped int
}

// Add adds a span, unless its trace is not to be recorded. Without room it is
// dropped.
func (s *Spans) Add(span Span) {
	if s == nil || span.Trace.flags&flagSampled == 0 || span.Trace.IsZero() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) >= maxSpans {
		s.dropped++
		return
	}
	s.waiting = append(s.waiting, span)
}

// Take removes and returns the spans that wait, and the number of those that
// were dropped since the last call.
func (s *Spans) Take() (waiting []Span, dropped int) {
	if s == nil {
		return nil, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting, dropped = s.waiting, s.dropped
	s.waiting, s.dropped = nil, 0
	return waiting, dropped
}
