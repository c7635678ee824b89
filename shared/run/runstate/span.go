package runstate

import "log/slog"

// SpanAttrs returns the attributes that the spans of a run have in common.
func (r *Run) SpanAttrs() []slog.Attr {
	return []slog.Attr{
		slog.String("millrace.org_id", r.Org), slog.String("millrace.run_id", r.ID), slog.String("millrace.flow", r.Flow),
		slog.String("millrace.flow_version", r.Version), slog.String("millrace.environment", r.Environment),
		slog.String("millrace.trigger", r.Trigger),
	}
}
