package otlp

import (
	"log/slog"
	"strconv"
	"time"

	"millrace/shared/platform/telemetry"
)

// The messages of opentelemetry.proto.collector.trace.v1 in their JSON form:
// ids are hex digits, 64-bit integers are texts.
type (
	request struct {
		ResourceSpans []resourceSpans `json:"resourceSpans"`
	}
	resourceSpans struct {
		Resource   resource     `json:"resource"`
		ScopeSpans []scopeSpans `json:"scopeSpans"`
	}
	resource struct {
		Attributes []attribute `json:"attributes"`
	}
	scopeSpans struct {
		Scope scope  `json:"scope"`
		Spans []span `json:"spans"`
	}
	scope struct {
		Name string `json:"name"`
	}
	span struct {
		TraceID    string      `json:"traceId"`
		SpanID     string      `json:"spanId"`
		Parent     string      `json:"parentSpanId,omitempty"`
		Name       string      `json:"name"`
		Kind       int         `json:"kind"`
		Start      string      `json:"startTimeUnixNano"`
		End        string      `json:"endTimeUnixNano"`
		Attributes []attribute `json:"attributes,omitempty"`
		Status     status      `json:"status"`
	}
	status struct {
		Code int `json:"code,omitempty"`
	}
	attribute struct {
		Key   string `json:"key"`
		Value value  `json:"value"`
	}
	value struct {
		String *string `json:"stringValue,omitempty"`
		Int    string  `json:"intValue,omitempty"`
	}
)

// statusError is STATUS_CODE_ERROR.
const statusError = 2

func encode(of []slog.Attr, spans []telemetry.Span) request {
	out := make([]span, len(spans))
	for i, s := range spans {
		out[i] = span{
			TraceID: s.Trace.TraceID(), SpanID: s.Trace.SpanID(), Name: s.Name, Kind: int(s.Kind),
			Start: nanoseconds(s.Start), End: nanoseconds(s.End), Attributes: attributes(s.Attrs),
		}
		if !s.Parent.IsZero() {
			out[i].Parent = s.Parent.SpanID()
		}
		if s.Error != "" {
			out[i].Status.Code = statusError
			out[i].Attributes = append(out[i].Attributes, attributes([]slog.Attr{slog.String("error.type", s.Error)})...)
		}
	}
	return request{[]resourceSpans{{resource{attributes(of)}, []scopeSpans{{scope{"millrace"}, out}}}}}
}

func nanoseconds(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func attributes(attrs []slog.Attr) []attribute {
	out := make([]attribute, 0, len(attrs))
	for _, a := range attrs {
		if a.Value.Kind() == slog.KindInt64 {
			out = append(out, attribute{a.Key, value{Int: strconv.FormatInt(a.Value.Int64(), 10)}})
		} else if text := a.Value.String(); text != "" {
			out = append(out, attribute{a.Key, value{String: &text}})
		}
	}
	return out
}
