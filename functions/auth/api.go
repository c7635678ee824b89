package auth

import (
	"context"
	"net/http"

	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/web/fn"
	"millrace/shared/web/httpapi"
)

// ApiKeyCreateRequest is the body of POST /api-keys.
type ApiKeyCreateRequest struct {
	Name string `json:"name" minLength:"1" maxLength:"100" doc:"What the key is for"`
	// A pointer to a slice: absent, null and empty mean different things.
	Scopes        *[]string `json:"scopes,omitempty" maxItems:"64" doc:"Permissions the key holds; omitted: flows.read and runs.read; an empty list: everything an owner may do"`
	ExpiresInDays *int      `json:"expires_in_days,omitempty" minimum:"1" maximum:"3650" doc:"Days until the key expires; null or omitted: never"`
}

// ApiKeyCreateResponse is the answer of POST /api-keys: the only one with the key itself.
type ApiKeyCreateResponse struct {
	KeyID     string   `json:"key_id"`
	Key       string   `json:"key" doc:"The full key, shown this once"`
	KeyPrefix string   `json:"key_prefix"`
	Name      string   `json:"name"`
	Scopes    []string `json:"scopes"`
	CreatedAt *string  `json:"created_at" doc:"RFC 3339, UTC"`
	ExpiresAt *int64   `json:"expires_at" doc:"Unix seconds; null: never"`
}

// ApiKeyListItem is a key in a list.
type ApiKeyListItem struct {
	KeyID      string   `json:"key_id"`
	KeyPrefix  string   `json:"key_prefix" doc:"The first characters of the key"`
	Name       string   `json:"name"`
	Scopes     []string `json:"scopes" doc:"Empty: everything an owner may do"`
	CreatedBy  string   `json:"created_by" doc:"Email of who made the key"`
	CreatedAt  *string  `json:"created_at" doc:"RFC 3339, UTC"`
	ExpiresAt  *int64   `json:"expires_at" doc:"Unix seconds; null: never"`
	LastUsedAt *string  `json:"last_used_at" doc:"RFC 3339, UTC, to the minute; null: never used"`
}

// ApiKeyListResponse is the answer of GET /api-keys.
type ApiKeyListResponse struct {
	Items []ApiKeyListItem `json:"items"`
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

type (
	none      struct{}
	createIn  struct{ Body ApiKeyCreateRequest }
	createOut struct{ Body ApiKeyCreateResponse }
	listOut   struct{ Body ApiKeyListResponse }
	deleteIn  struct {
		KeyID string `path:"key_id" maxLength:"64"`
	}
	deleteOut struct {
		Body struct {
			Status string `json:"status" enum:"deleted"`
		}
	}
	meOut      struct{ Body MeResponse }
	currentOut struct{ Body CurrentUserResponse }
)

func routes(api *httpapi.API, d fn.Deps) {
	s := service{table: d.Table, clock: d.Clock, quota: d.Quota}
	manage := tenant.Needs(tenant.AdminAPIKeys)

	httpapi.Register(api, httpapi.Operation{
		ID: "api-keys-list", Method: http.MethodGet, Path: "/api-keys", Domain: name,
		Summary:     "List API keys",
		Description: "Every API key of the workspace, the newest first, expired ones among them. A key needs the scope `admin`.",
		Access:      manage.Keys(tenant.ScopeAdmin),
	}, func(ctx context.Context, _ *none) (*listOut, error) {
		keys, err := s.list(ctx)
		if err != nil {
			return nil, err
		}
		out := listOut{Body: ApiKeyListResponse{Items: make([]ApiKeyListItem, len(keys))}}
		for i, k := range keys {
			out.Body.Items[i] = view(k)
		}
		return &out, nil
	})

	httpapi.Register(api, httpapi.Operation{
		ID: "api-keys-create", Method: http.MethodPost, Path: "/api-keys", Domain: name,
		Summary: "Create an API key",
		Description: "The answer holds the full key, which is stored nowhere and never shown again. " +
			"A key never exceeds who makes it: each scope must be held by the caller (403), and the empty list, " +
			"which stands for everything an owner may do, takes an owner. An unknown scope is 422. " +
			"The scope `admin` is no wildcard: it opens the account routes, beside the permissions they need. " +
			"A key can be neither changed nor rotated: create another and delete this one.",
		Status: http.StatusOK,
		Access: manage.Keys(tenant.ScopeAdmin, string(tenant.AdminAPIKeys)),
	}, func(ctx context.Context, in *createIn) (*createOut, error) {
		key, secret, err := s.create(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		v := view(key)
		return &createOut{Body: ApiKeyCreateResponse{
			KeyID: v.KeyID, Key: secret, KeyPrefix: v.KeyPrefix, Name: v.Name, Scopes: v.Scopes,
			CreatedAt: v.CreatedAt, ExpiresAt: v.ExpiresAt,
		}}, nil
	})

	httpapi.Register(api, httpapi.Operation{
		ID: "api-keys-delete", Method: http.MethodDelete, Path: "/api-keys/{key_id}", Domain: name,
		Summary:     "Delete an API key",
		Description: "The key is refused from then on. Deleting it again is 404, as is a key of another workspace.",
		Status:      http.StatusOK,
		Access:      manage.Keys(tenant.ScopeAdmin, string(tenant.AdminAPIKeys)),
	}, func(ctx context.Context, in *deleteIn) (*deleteOut, error) {
		if err := s.delete(ctx, in.KeyID); err != nil {
			return nil, err
		}
		var out deleteOut
		out.Body.Status = "deleted"
		return &out, nil
	})

	httpapi.Register(api, httpapi.Operation{
		ID: "me", Method: http.MethodGet, Path: "/me", Domain: name,
		Summary:     "Who the caller is",
		Description: "The user, the workspace this request acts in, and the role there. For an API key the role is empty.",
		Access:      tenant.Authenticated,
	}, func(ctx context.Context, _ *none) (*meOut, error) {
		p := tenant.From(ctx)
		return &meOut{Body: MeResponse{UserEmail: p.Email, OrgID: p.OrgID, Role: string(p.Role)}}, nil
	})

	httpapi.Register(api, httpapi.Operation{
		ID: "users-me", Method: http.MethodGet, Path: "/users/me", Domain: name,
		Summary:     "The current user, with account metadata",
		Description: "As GET /me, with the workspace's name and whether the user administers the platform.",
		Access:      tenant.Authenticated,
	}, func(ctx context.Context, _ *none) (*currentOut, error) {
		p := tenant.From(ctx)
		return &currentOut{Body: CurrentUserResponse{
			UserEmail: p.Email, SuperAdmin: p.SuperAdmin, OrgID: p.OrgID, OrgName: p.OrgName, Role: string(p.Role),
		}}, nil
	})
}

func view(k identity.APIKey) ApiKeyListItem {
	out := ApiKeyListItem{
		KeyID: k.KeyID, KeyPrefix: k.Prefix, Name: k.Name, Scopes: k.Scopes, CreatedBy: k.CreatedBy,
	}
	if out.Scopes == nil {
		out.Scopes = []string{}
	}
	if s := k.CreatedAt.String(); s != "" {
		out.CreatedAt = &s
	}
	if s := k.LastUsedAt.String(); s != "" {
		out.LastUsedAt = &s
	}
	if k.ExpiresAt != 0 {
		out.ExpiresAt = &k.ExpiresAt
	}
	return out
}
