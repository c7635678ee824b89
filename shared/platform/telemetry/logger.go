package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
)

// The formats of logs.
const (
	JSON = "json" // a JSON object a line
	Text = "text" // key=value, for people
)

// NewLogger makes a logger that writes lines of a level or above. To each it
// adds the subject of its context, and takes out what looks like a credential.
// Any format but [Text] is JSON.
func NewLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == Text {
		return slog.New(NewHandler(slog.NewTextHandler(w, options)))
	}
	return slog.New(NewHandler(slog.NewJSONHandler(w, options)))
}

// Handler stands before another handler, adds the subject of the context to its
// records, and takes out of them what looks like a credential.
type Handler struct{ next slog.Handler }

// NewHandler makes a Handler.
func NewHandler(next slog.Handler) *Handler { return &Handler{next: next} }

// Enabled is the next handler's.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle completes a record and hands it on.
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

// WithAttrs adds to every record.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	cleaned := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cleaned[i] = clean(a)
	}
	return &Handler{next: h.next.WithAttrs(cleaned)}
}

// WithGroup opens a group, in which the subject then stands too.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{next: h.next.WithGroup(name)}
}

// clean is an attribute without credentials. Errors become their text.
func clean(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(redact(a.Value.String()))
	case slog.KindAny:
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(redact(fmt.Sprint(err))) // which forgives an error that panics
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
