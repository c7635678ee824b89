package orgs

import (
	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// OrgCreateRequest is the body of POST /orgs.
type OrgCreateRequest struct {
	Name string `json:"name" is:"title" minLength:"1" maxLength:"100" example:"Acme Analytics" doc:"Display name; need not be unique"`
}

// OrgResponse is a workspace as the caller sees it.
type OrgResponse struct {
	OrgID     string `json:"org_id"`
	Name      string `json:"name"`
	Role      string `json:"role" doc:"The caller's role; empty for an API key"`
	Suspended bool   `json:"suspended" doc:"Whether the workspace, or the caller's access to it, is suspended"`
	CreatedAt string `json:"created_at" doc:"RFC 3339, UTC"`
}

// MemberAddRequest is the body of POST /orgs/{org_id}/members.
type MemberAddRequest struct {
	Email string `json:"email" minLength:"1" maxLength:"254" example:"new.colleague@example.com" doc:"The address that the user signs in with"`
	Role  string `json:"role" enum:"owner,admin,developer,viewer" example:"developer" doc:"At most the caller's own"`
}

// UpdateMemberRoleRequest is the body of PATCH /orgs/{org_id}/members/{email}/role.
type UpdateMemberRoleRequest struct {
	Role string `json:"role" enum:"owner,admin,developer,viewer" example:"viewer" doc:"At most the caller's own"`
}

// MemberResponse is a member of a workspace.
type MemberResponse struct {
	OrgID     string `json:"org_id"`
	Email     string `json:"email"`
	Role      string `json:"role" doc:"owner, admin, developer or viewer"`
	Suspended bool   `json:"suspended" doc:"Whether the member's access to the workspace is suspended"`
	AddedAt   string `json:"added_at" doc:"RFC 3339, UTC"`
	AddedBy   string `json:"added_by" doc:"Email of the user, or api-key:<key_id>"`
}

// RolePermissions are the permissions of one role.
type RolePermissions struct {
	Role        string              `json:"role"`
	Permissions []tenant.Permission `json:"permissions" doc:"Sorted; an API key is given the same names as scopes"`
}

// RolePermissionsResponse lists the roles, the highest first. Each has all
// permissions of the next one.
type RolePermissionsResponse struct {
	Items []RolePermissions `json:"items"`
}

type (
	createIn  struct{ Body OrgCreateRequest }
	membersIn struct {
		OrgID string `path:"org_id" doc:"A workspace of the caller; without X-Org-Id the path selects it"`
	}
	addIn struct {
		OrgID string `path:"org_id" doc:"A workspace of the caller; without X-Org-Id the path selects it"`
		Body  MemberAddRequest
	}
	roleIn struct {
		OrgID string `path:"org_id" doc:"A workspace of the caller; without X-Org-Id the path selects it"`
		Email string `path:"email" maxLength:"254"`
		Body  UpdateMemberRoleRequest
	}
)

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{table: d.Table, clock: d.Clock, quota: d.Quota}
	access := tenant.Authenticated.Keys(tenant.ScopeAdmin)
	manages := httpapi.Access(tenant.Needs(tenant.AdminMembers).Keys(tenant.ScopeAdmin, string(tenant.AdminMembers)))
	g := httpapi.Group{API: api, Function: name, Reads: access, Writes: access}
	httpapi.Get(g, "/orgs", s.list, "List the caller's workspaces",
		httpapi.Doc("For a user, the workspaces they are a member of, the earliest joined first; each can be "+
			"named in X-Org-Id. For an API key, which needs the scope `admin`, its own workspace."))
	httpapi.Post(g, "/orgs", s.create, "Create a workspace",
		httpapi.Doc("The caller becomes its owner; the owner of a workspace created with an API key, which needs the "+
			"scope `admin`, is the user who created the key. The key itself remains limited to its own workspace."))
	httpapi.Get(g, "/orgs/{org_id}/members", s.members, "List the members of a workspace",
		httpapi.Doc("The earliest added first. A workspace in which the credential does not act is 403."))
	httpapi.Post(g, "/orgs/{org_id}/members", s.addMember, "Add a member to a workspace", manages, httpapi.Errors(409),
		httpapi.Doc("The user need not have signed in before. Nobody grants a role above their own (403): an API key with "+
			"full access acts as an owner, any other as an admin. Somebody who is a member already is 409."))
	httpapi.Patch(g, "/orgs/{org_id}/members/{email}/role", s.changeRole, "Change the role of a member", manages, httpapi.Errors(409),
		httpapi.Doc("It holds from the member's next request on; API keys that they created keep their scopes. Nobody grants a "+
			"role above their own, or changes somebody above them (403). The last owner with access cannot be demoted (409)."))
	httpapi.Get(g, "/orgs/{org_id}/roles", s.roles, "List the roles and their permissions")
}
