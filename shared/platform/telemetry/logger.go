package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// Log formats.
const (
	JSON = "json" // one JSON object per line
	Text = "text" // key=value, for people
)

// NewLogger returns a logger that writes lines of at least the given level. It
// adds the subject of the context to each line and redacts credentials. Any
// format but [Text] is JSON.
func NewLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == Text {
		return slog.New(NewHandler(slog.NewTextHandler(w, options)))
	}
	return slog.New(NewHandler(slog.NewJSONHandler(w, options)))
}

// Handler wraps another handler. It adds the subject of the context to records
// and redacts credentials.
type Handler struct{ next slog.Handler }

// NewHandler returns a Handler.
func NewHandler(next slog.Handler) *Handler { return &Handler{next: next} }

// Enabled returns the next handler's answer.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle completes a record and passes it on.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, redact(r.Message), r.PC)
	if s := of(ctx); s != nil {
		out.AddAttrs(s.attrs()...)
	}
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(clean(a))
		return true
	})
	return h.next.Handle(ctx, out)
}

// WithAttrs adds attributes to every record.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	cleaned := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cleaned[i] = clean(a)
	}
	return &Handler{next: h.next.WithAttrs(cleaned)}
}

// WithGroup opens a group. The subject of later records is in it, too.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name)}
}

// clean returns an attribute without credentials. Errors become text.
func clean(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(redact(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(redact(fmt.Sprint(err))) // fmt recovers if an error panics
		}
	case slog.KindGroup:
		group := a.Value.Group()
		inner := make([]slog.Attr, len(group))
		for i, member := range group {
			inner[i] = clean(member)
		}
		a.Value = slog.GroupValue(inner...)
	}
	return a
}
