package identity

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// APIKey is an API key without its secret.
type APIKey struct {
	OrgID      string       `table:"org_id"`
	KeyID      string       `table:"key_id"`
	Prefix     string       `table:"key_prefix"` // the first characters of the secret
	Name       string       `table:"name"`
	Scopes     []string     `table:"scopes,omitempty"` // empty: everything an owner may do
	CreatedAt  clock.Millis `table:"created_at"`
	CreatedBy  string       `table:"created_by"`             // email; for a key made with a key, of who made that
	ExpiresAt  int64        `table:"expires_at,omitempty"`   // Unix seconds, 0: never
	LastUsedAt clock.Millis `table:"last_used_at,omitempty"` // to the minute; 0: never
}

// FullAccess reports whether the key may do everything an owner may.
func (k APIKey) FullAccess() bool { return len(k.Scopes) == 0 }

// keyItem is a key as stored, in both places. Only the one for authentication
// carries LastUsedAt.
type keyItem struct {
	table.Key
	APIKey
	Hash string `table:"hash"`
}

func listKey(org, keyID string) table.Key { return table.Key{PK: org + "#keys", SK: keyID} }

func lookupKey(hash string) table.Key { return table.Key{PK: "key#" + hash, SK: "key"} }

// KeyRequest is an API key to make.
type KeyRequest struct {
	OrgID     string
	Name      string
	Scopes    []string  // empty: everything an owner may do
	ExpiresAt time.Time // zero: never
}

// CreateKey makes an API key and returns it with its secret, which is stored
// nowhere. The caller has checked that ctx's principal may give these scopes.
func CreateKey(ctx context.Context, t table.Table, now time.Time, req KeyRequest) (APIKey, string, error) {
	key, secret, writes := newKey(ctx, now, req)
	if err := t.Transact(ctx, writes...); err != nil {
		return APIKey{}, "", err
	}
	return key, secret, nil
}

// newKey makes a key and the writes that store it, its audit entry the last.
func newKey(ctx context.Context, now time.Time, req KeyRequest) (APIKey, string, []table.Write) {
	secret := newSecret()
	key := APIKey{
		OrgID:     req.OrgID,
		KeyID:     "key_" + ids.New(now),
		Prefix:    secret[:shownLen],
		Name:      req.Name,
		Scopes:    req.Scopes,
		CreatedAt: clock.ToMillis(now),
		CreatedBy: tenant.From(ctx).Email,
	}
	if !req.ExpiresAt.IsZero() {
		key.ExpiresAt = req.ExpiresAt.Unix()
	}
	hash := hashSecret(secret)
	return key, secret, []table.Write{
		table.Put{Item: keyItem{Key: listKey(key.OrgID, key.KeyID), APIKey: key, Hash: hash}, If: table.IsNew()},
		table.Put{Item: keyItem{Key: lookupKey(hash), APIKey: key, Hash: hash}, If: table.IsNew()},
		audit.EntryFor(ctx, key.OrgID, now, audit.Change{
			Action: "create", ResourceType: "api_key", ResourceID: key.KeyID, After: key.snapshot(),
		}),
	}
}

// ListKeys reads the API keys of a workspace, expired ones among them, the
// newest first.
func ListKeys(ctx context.Context, t table.Table, org string) ([]APIKey, error) {
	var lookups []table.Key
	for item, err := range table.All(ctx, t, table.Query{PK: listKey(org, "").PK, Consistent: true}) {
		if err != nil {
			return nil, err
		}
		var k keyItem
		if err := table.Unmarshal(item, &k); err != nil {
			return nil, err
		}
		lookups = append(lookups, lookupKey(k.Hash))
	}
	if len(lookups) == 0 {
		return nil, nil
	}
	items, err := t.BatchGet(ctx, lookups, table.Consistent)
	if err != nil {
		return nil, err
	}
	stored, err := table.Decode[keyItem](items)
	if err != nil {
		return nil, err
	}
	keys := make([]APIKey, len(stored))
	for i, k := range stored {
		keys[i] = k.APIKey
	}
	slices.SortFunc(keys, func(a, b APIKey) int { return cmp.Compare(b.KeyID, a.KeyID) })
	return keys, nil
}

// CountKeys counts the API keys of a workspace, expired ones among them.
func CountKeys(ctx context.Context, t table.Table, org string) (int64, error) {
	return table.Count(ctx, t, table.Query{PK: listKey(org, "").PK, Only: []string{"key_id"}, Consistent: true})
}

// DeleteKey removes an API key of a workspace; it is refused from then on.
// Errors: errs.NotFound, also for one deleted before.
func DeleteKey(ctx context.Context, t table.Table, now time.Time, org, keyID string) error {
	gone := errs.New(errs.NotFound, "API key not found")
	if keyID == "" || len(keyID) > 64 {
		return gone
	}
	k, err := table.Load[keyItem](ctx, t, listKey(org, keyID), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return gone
	}
	if err != nil {
		return err
	}
	err = t.Transact(ctx, deleteKey(ctx, now, k)...)
	if errors.Is(err, table.ErrConditionFailed) { // another deletion came first
		return gone
	}
	return err
}

// deleteKey is the writes that remove a key, its audit entry the last.
func deleteKey(ctx context.Context, now time.Time, k keyItem) []table.Write {
	return []table.Write{
		table.Delete{Key: k.Key, If: table.IsStored()},
		table.Delete{Key: lookupKey(k.Hash)},
		audit.EntryFor(ctx, k.OrgID, now, audit.Change{
			Action: "delete", ResourceType: "api_key", ResourceID: k.KeyID, Before: k.snapshot(),
		}),
	}
}

// snapshot is the key as the audit log shows it.
func (k APIKey) snapshot() map[string]any {
	scopes := k.Scopes
	if scopes == nil {
		scopes = []string{}
	}
	m := map[string]any{
		"key_id": k.KeyID, "key_prefix": k.Prefix, "name": k.Name, "scopes": scopes,
		"created_at": k.CreatedAt.String(), "created_by": k.CreatedBy, "expires_at": nil,
	}
	if k.ExpiresAt != 0 {
		m["expires_at"] = k.ExpiresAt
	}
	return m
}
