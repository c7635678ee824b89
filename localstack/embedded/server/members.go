package server

import (
	"errors"
	"io"
	"net/http"

	strict "github.com/go-json-experiment/json"

	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/errs"
)

// MembersPath is the route by which an operator suspends members of workspaces.
// It requires the server's local secret.
const MembersPath = localPrefix + "members"

// operator is the actor of an operator's changes in the audit log.
const operator = "operator"

// MemberRequest is the body of [MembersPath].
type MemberRequest struct {
	OrgID     string `json:"org_id"`
	Email     string `json:"email"`
	Suspended *bool  `json:"suspended"` // false restores access
}

// suspendMember serves MembersPath and returns the member's new state.
func (s *Server) suspendMember(w http.ResponseWriter, r *http.Request) {
	var body MemberRequest
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<10))
	if err == nil {
		err = strict.Unmarshal(data, &body, strict.RejectUnknownMembers(true))
	}
	email, bad := identity.ParseEmail(body.Email)
	if err != nil || bad != nil || body.OrgID == "" || len(body.OrgID) > 64 || body.Suspended == nil {
		writeLocal(w, http.StatusUnprocessableEntity, map[string]any{
			"detail": `The body must be {"org_id": "…", "email": "…", "suspended": true or false}`,
		})
		return
	}
	ctx := tenant.With(r.Context(), tenant.Principal{OrgID: body.OrgID, Email: operator})
	err = identity.SuspendMember(ctx, s.deps.Table, s.deps.Clock.Now(), body.OrgID, email, *body.Suspended)
	var known *errs.Error
	switch {
	case err == nil:
		writeLocal(w, http.StatusOK, MemberRequest{OrgID: body.OrgID, Email: email, Suspended: body.Suspended})
	case errors.As(err, &known) && known.Code == errs.NotFound:
		writeLocal(w, http.StatusNotFound, map[string]any{"detail": "The workspace has no such member"})
	case errors.As(err, &known) && known.Code == errs.Unavailable:
		writeLocal(w, http.StatusServiceUnavailable, map[string]any{"detail": known.Message})
	default:
		s.cfg.Log.Error("member not suspended", "org_id", body.OrgID, "error", err)
		writeLocal(w, http.StatusInternalServerError, map[string]any{"detail": "Internal server error"})
	}
}
