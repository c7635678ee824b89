// Package identity stores who may use the service (workspaces, users,
// memberships, API keys and access tokens) and provides the [Authenticator]
// that turns a bearer credential into a principal.
//
// Stored items, by partition and sort key:
//
//	<org>#workspace  workspace      a workspace
//	<org>#members    <email>        a member, by workspace
//	user#<email>     user           a user, with the number of logouts
//	user#<email>     org#<org>      the same membership, by user
//	<org>#keys       <key_id>       an API key, for lists
//	key#<sha256>     key            the same key, for authentication
//	session#<sha256> session        an access token
//	device#<sha256>  grant          a device authorization, by its device code
//	device#code#<h>  code           the same, by its user code (keyed hash)
//	platform         bootstrap      what the first start created
//
// Items stored twice are written in one transaction, together with their audit
// entry.
package identity

import (
	"context"
	"errors"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Workspace is a tenant.
type Workspace struct {
	table.Key
	OrgID     string       `table:"org_id"`
	Name      string       `table:"name"`
	CreatedAt clock.Millis `table:"created_at"`
	CreatedBy string       `table:"created_by"`          // email
	Suspended bool         `table:"suspended,omitempty"` // blocks all access
}

// Membership is a user's membership of a workspace. It is stored by workspace
// and by user; Key tells which of the two this is.
type Membership struct {
	table.Key
	OrgID     string       `table:"org_id"`
	Email     string       `table:"email"`
	Role      tenant.Role  `table:"role"`
	AddedAt   clock.Millis `table:"added_at"`
	AddedBy   string       `table:"added_by"`            // email, or api-key:<id>
	Suspended bool         `table:"suspended,omitempty"` // blocks this user's access to this workspace
}

func workspaceKey(org string) table.Key {
	return table.Key{PK: org + "#workspace", SK: "workspace"}
}

func memberKey(org, email string) table.Key {
	return table.Key{PK: org + "#members", SK: email}
}

func userKey(email string) table.Key { return table.Key{PK: "user#" + email, SK: "user"} }

func membershipKey(email, org string) table.Key {
	return table.Key{PK: "user#" + email, SK: "org#" + org}
}

// Partitions returns the partitions that hold identities, including those of
// workspace org. With "*" for variable parts they are patterns; org must then
// be a pattern of fixed length, because other partitions of a workspace may end
// alike.
func Partitions(org string) []string {
	return []string{
		workspaceKey(org).PK, memberKey(org, "").PK, org + "#" + keyFolder,
		userKey("*").PK, lookupKey("*").PK, sessionKey("*").PK, grantKey("*").PK, bootstrapKey.PK,
	}
}

// GetWorkspace reads a workspace. Errors: errs.NotFound.
func GetWorkspace(ctx context.Context, t table.Table, org string) (Workspace, error) {
	w, err := table.Load[Workspace](ctx, t, workspaceKey(org), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return Workspace{}, errs.New(errs.NotFound, "workspace not found")
	}
	return w, err
}

// GetWorkspaces reads the workspaces of memberships, by org id.
func GetWorkspaces(ctx context.Context, t table.Table, ms []Membership) (map[string]Workspace, error) {
	if len(ms) == 0 {
		return nil, nil
	}
	keys := make([]table.Key, len(ms))
	for i, m := range ms {
		keys[i] = workspaceKey(m.OrgID)
	}
	items, err := t.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return nil, err
	}
	ws, err := table.Decode[Workspace](items)
	if err != nil {
		return nil, err
	}
	out := make(map[string]Workspace, len(ws))
	for _, w := range ws {
		out[w.OrgID] = w
	}
	return out, nil
}

// Memberships returns the workspaces that a user belongs to, the earliest
// joined first.
func Memberships(ctx context.Context, t table.Table, email string) ([]Membership, error) {
	return memberships(ctx, t, table.Query{PK: userKey(email).PK, Range: table.Prefix("org#"), Consistent: true})
}

// Members returns the members of a workspace, by email.
func Members(ctx context.Context, t table.Table, org string) ([]Membership, error) {
	return memberships(ctx, t, table.Query{PK: memberKey(org, "").PK, Consistent: true})
}

func memberships(ctx context.Context, t table.Table, q table.Query) ([]Membership, error) {
	var out []Membership
	for item, err := range table.All(ctx, t, q) {
		if err != nil {
			return nil, err
		}
		var m Membership
		if err := table.Unmarshal(item, &m); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	sortMemberships(out)
	return out, nil
}

// expired reports whether a time in Unix seconds has passed; 0 never does.
func expired(at int64, now time.Time) bool { return at != 0 && now.Unix() >= at }
