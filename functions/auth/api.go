package auth

import (
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// ApiKeyCreateRequest is the body of POST /api-keys.
type ApiKeyCreateRequest struct {
	Name string `json:"name" is:"title" minLength:"1" maxLength:"100" doc:"What the key is for"`
	// A pointer to a slice: absent, null and empty mean different things.
	Scopes        *[]string `json:"scopes,omitempty" maxItems:"64" doc:"Permissions the key holds; omitted: flows.read and runs.read; an empty list: everything an owner may do"`
	ExpiresInDays *int      `json:"expires_in_days,omitempty" minimum:"1" maximum:"3650" doc:"Days until the key expires; null or omitted: never"`
}

// ApiKeyCreateResponse is the answer of POST /api-keys: the only one with the key itself.
type ApiKeyCreateResponse struct {
	KeyID     string       `json:"key_id"`
	Key       string       `json:"key" doc:"The full key, shown this once"`
	KeyPrefix string       `json:"key_prefix"`
	Name      string       `json:"name"`
	Scopes    []string     `json:"scopes"`
	CreatedAt clock.Millis `json:"created_at"`
	ExpiresAt *int64       `json:"expires_at" doc:"Unix seconds; null: never"`
}

// ApiKeyListResponse is the answer of GET /api-keys.
type ApiKeyListResponse struct {
	Items []identity.UsedKey `json:"items"`
}

// MeResponse is the answer of GET /me.
type MeResponse struct {
	UserEmail string `json:"user_email" doc:"For an API key, who made it"`
	OrgID     string `json:"org_id" doc:"Empty for a user without a workspace"`
	Role      string `json:"role" doc:"owner, admin, developer or viewer; empty for an API key"`
}

// CurrentUserResponse is the answer of GET /users/me.
type CurrentUserResponse struct {
	UserEmail  string `json:"user_email" doc:"For an API key, who made it"`
	SuperAdmin bool   `json:"super_admin"`
	OrgID      string `json:"org_id"`
	OrgName    string `json:"org_name"`
	Role       string `json:"role"`
}

type createIn struct{ Body ApiKeyCreateRequest }

type keyPath struct {
	KeyID string `path:"key_id" maxLength:"64"`
}

// Deleted is the answer of DELETE /api-keys/{key_id}.
type Deleted struct {
	Status string `json:"status" enum:"deleted"`
}

func routes(api *httpapi.API, d fn.Deps) {
	s := &service{keys: identity.NewKeys(d.Records())}
	manage := tenant.Needs(tenant.AdminAPIKeys)
	keys := httpapi.Group{
		API: api, Function: name, Name: "api-keys",
		Reads: manage.Keys(tenant.ScopeAdmin), Writes: manage.Keys(tenant.ScopeAdmin, string(tenant.AdminAPIKeys)),
	}
	httpapi.Get(keys, "/api-keys", s.list, "List API keys",
		httpapi.Doc("Every API key of the workspace, the newest first, expired ones among them. A key needs the scope `admin`."))
	httpapi.Post(keys, "/api-keys", s.create, "Create an API key",
		httpapi.Example(`{"name": "CI of the data team", "scopes": ["flows.read", "flows.write", "runs.trigger"], "expires_in_days": 90}`),
		httpapi.Doc("The answer holds the full key, which is stored nowhere and never shown again. "+
			"A key never exceeds who makes it: each scope must be held by the caller (403), and the empty list, "+
			"which stands for everything an owner may do, takes an owner. An unknown scope is 422. "+
			"The scope `admin` is no wildcard: it opens the account routes, beside the permissions they need. "+
			"A key can be neither changed nor rotated: create another and delete this one."))
	httpapi.Delete(keys, "/api-keys/{key_id}", s.delete, "Delete an API key",
		httpapi.Doc("The key is refused from then on. Deleting it again is 404, as is a key of another workspace."))

	who := httpapi.Group{API: api, Function: name, Reads: tenant.Authenticated}
	httpapi.Get(who, "/me", s.me, "Who the caller is", httpapi.ID("me"),
		httpapi.Doc("The user, the workspace this request acts in, and the role there. For an API key the role is empty."))
	httpapi.Get(who, "/users/me", s.currentUser, "The current user, with account metadata", httpapi.ID("users-me"),
		httpapi.Doc("As GET /me, with the workspace's name and whether the user administers the platform."))
	sessionRoutes(api, d)
}
