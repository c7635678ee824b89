package server

import (
	"net/http"
	"time"

	"millrace/shared/platform/telemetry/otlp"
)

// StatePath is the route by which an operator sees what only the server knows of
// itself. It requires the server's local secret.
const StatePath = localPrefix + "state"

// State is the answer of [StatePath].
type State struct {
	Dir string `json:"data"` // the data directory
	// KeysMadeAt is when the keys were made that [RotateKeys] replaces.
	KeysMadeAt time.Time   `json:"keys_made_at"`
	Spans      *otlp.State `json:"spans"` // null: none are exported
}

// serveState serves StatePath.
func (s *Server) serveState(w http.ResponseWriter, _ *http.Request) {
	writeLocal(w, http.StatusOK, State{Dir: s.cfg.Dir, KeysMadeAt: s.keysMade.UTC(), Spans: s.exporter.State()})
}
