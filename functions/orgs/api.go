package orgs

import (
	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// OrgCreateRequest is the body of POST /orgs.
type OrgCreateRequest struct {
	Name string `json:"name" minLength:"1" maxLength:"100" example:"Acme Analytics" doc:"Display name; need not be unique"`
}

// OrgResponse is a workspace as the caller sees it.
type OrgResponse struct {
	OrgID     string `json:"org_id"`
	Name      string `json:"name"`
	Role      string `json:"role" doc:"The caller's role; empty for an API key"`
	Suspended bool   `json:"suspended" doc:"Whether the workspace, or the caller's access to it, is suspended"`
	CreatedAt string `json:"created_at" doc:"RFC 3339, UTC"`
}

type createIn struct{ Body OrgCreateRequest }

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{table: d.Table, clock: d.Clock, quota: d.Quota}
	access := tenant.Authenticated.Keys(tenant.ScopeAdmin)
	g := httpapi.Group{API: api, Function: name, Reads: access, Writes: access}
	httpapi.Get(g, "/orgs", s.list, "List the caller's workspaces",
		httpapi.Doc("For a user, the workspaces they are a member of, the earliest joined first; each can be "+
			"named in X-Org-Id. For an API key, which needs the scope `admin`, its own workspace."))
	httpapi.Post(g, "/orgs", s.create, "Create a workspace",
		httpapi.Doc("The caller becomes its owner; the owner of a workspace created with an API key, which needs the "+
			"scope `admin`, is the user who created the key. The key itself remains limited to its own workspace."))
}
