package server

import (
	"context"
	"log/slog"

	"millrace/shared/platform/telemetry"
	"millrace/shared/platform/telemetry/otlp"
)

// exportSpans starts the export of spans and returns what collects them, nil if
// none are exported. The last are exported when the server closes.
func (s *Server) exportSpans() *telemetry.Spans {
	exporter := otlp.New(s.cfg.OTLP, s.cfg.Log, slog.String("service.name", "millrace"), slog.String("service.version", s.cfg.Version))
	if exporter == nil {
		return nil
	}
	s.exporter = exporter
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exporter.Run(ctx)
	}()
	s.closing(func() error {
		stop()
		<-ended
		return nil
	})
	return exporter.Spans
}
