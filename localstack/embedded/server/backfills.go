package server

import (
	"io"
	"net/http"

	strict "github.com/go-json-experiment/json"

	"millrace/shared/account/setting"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
)

// BackfillsPath is the route by which an operator switches the backfills of a
// workspace on or off. It requires the server's local secret.
const BackfillsPath = localPrefix + "backfills"

// BackfillsRequest is the body of [BackfillsPath].
type BackfillsRequest struct {
	OrgID   string `json:"org_id"`
	Enabled *bool  `json:"enabled"`
}

// switchBackfills serves BackfillsPath and returns the new state.
func (s *Server) switchBackfills(w http.ResponseWriter, r *http.Request) {
	var body BackfillsRequest
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<10))
	if err == nil {
		err = strict.Unmarshal(data, &body, strict.RejectUnknownMembers(true))
	}
	if err != nil || body.OrgID == "" || len(body.OrgID) > 64 || body.Enabled == nil {
		writeLocal(w, http.StatusUnprocessableEntity, map[string]any{"detail": `The body must be {"org_id": "…", "enabled": true or false}`})
		return
	}
	ctx := tenant.With(r.Context(), tenant.Principal{OrgID: body.OrgID, Email: operator})
	err = setting.SwitchBackfills(ctx, s.deps.Table, s.deps.Clock.Now(), body.OrgID, *body.Enabled)
	switch code := errs.CodeOf(err); {
	case err == nil:
		writeLocal(w, http.StatusOK, body)
	case code == errs.NotFound:
		writeLocal(w, http.StatusNotFound, map[string]any{"detail": "There is no such workspace"})
	case code == errs.Unavailable:
		writeLocal(w, http.StatusServiceUnavailable, map[string]any{"detail": errs.Text(err)})
	default:
		s.cfg.Log.Error("backfills not switched", "org_id", body.OrgID, "error", err)
		writeLocal(w, http.StatusInternalServerError, map[string]any{"detail": "Internal server error"})
	}
}
