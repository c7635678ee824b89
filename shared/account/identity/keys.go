package identity

import (
	"cmp"
	"context"
	"slices"
	"time"

	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// APIKey is an API key without its secret. It is stored twice: in the list of its
// workspace, and as a [UsedKey] under the hash of its secret.
type APIKey struct {
	record.Made          // CreatedBy is an email: for a key made with a key, of who made that
	OrgID       string   `table:"org_id" json:"-"`
	KeyID       string   `table:"key_id" json:"key_id"`
	Prefix      string   `table:"key_prefix" json:"key_prefix" doc:"The first characters of the key"`
	Name        string   `table:"name" json:"name"`
	Scopes      []string `table:"scopes,omitempty" json:"scopes" doc:"Empty: everything an owner may do"`
	ExpiresAt   *int64   `table:"expires_at,omitempty" json:"expires_at" doc:"Unix seconds; null: never"`
	Hash        string   `table:"hash" json:"-"`
}

// Audited is a key as audit entries show it.
func (k *APIKey) Audited() any {
	type shown APIKey
	out := shown(*k)
	out.Scopes = append([]string{}, k.Scopes...)
	return out
}

// FullAccess reports whether the key may do everything an owner may.
func (k *APIKey) FullAccess() bool { return len(k.Scopes) == 0 }

// UsedKey is an API key as it is stored for authentication, with its last use.
type UsedKey struct {
	APIKey
	LastUsedAt *clock.Millis `table:"last_used_at,omitempty" json:"last_used_at" doc:"To the minute; null: never used"`
}

// SchemaName is what the interface calls it.
func (UsedKey) SchemaName() string { return "ApiKeyListItem" }

// keyFolder names the partition of a workspace that lists its keys.
const keyFolder = "keys"

func lookupKey(hash string) table.Key { return table.Key{PK: "key#" + hash, SK: "key"} }

// KeyRequest describes an API key to create.
type KeyRequest struct {
	Name      string
	Scopes    []string  // empty: everything that an owner may do
	ExpiresAt time.Time // zero: never
}

// Keys are the API keys of workspaces, of the one that a call's context belongs to.
type Keys struct {
	record.Set[APIKey, *APIKey]
}

// NewKeys are the keys in a store.
func NewKeys(s record.Store) Keys {
	kind := record.Kind{Folder: keyFolder, Type: "api_key", Noun: "API key", Limit: quota.APIKeys}
	return Keys{record.New[APIKey](kind, s)}
}

// Create makes an API key and returns it with its secret, which is stored nowhere.
// The caller has checked that ctx's principal may give these scopes. Errors:
// errs.TooMany.
func (k Keys) Create(ctx context.Context, req KeyRequest) (APIKey, string, error) {
	id, secret, change := k.create(ctx, req)
	out, err := k.Write(ctx, id, change)
	return out.After, secret, err
}

// create is the change that makes a key of a new id and secret.
func (k Keys) create(ctx context.Context, req KeyRequest) (id, secret string, c record.Change[APIKey]) {
	secret = newSecret(KeyPrefix)
	p := tenant.From(ctx)
	key := APIKey{
		OrgID: p.OrgID, KeyID: "key_" + ids.New(k.Clock.Now()), Prefix: secret[:shownLen], Name: req.Name, Scopes: req.Scopes,
		Hash: hashSecret(secret), Made: record.Made{CreatedBy: p.Email},
	}
	if !req.ExpiresAt.IsZero() {
		at := req.ExpiresAt.Unix()
		key.ExpiresAt = &at
	}
	return key.KeyID, secret, record.Change[APIKey]{
		Next: func(*APIKey) (APIKey, error) { return key, nil },
		Also: func(o record.Outcome[APIKey]) []table.Write {
			lookup := UsedKey{APIKey: o.After}
			lookup.Key = lookupKey(key.Hash)
			return []table.Write{table.Put{Item: lookup, If: table.IsNew()}}
		},
	}
}

// List reads the keys, expired ones among them, the newest first.
func (k Keys) List(ctx context.Context) ([]UsedKey, error) {
	var lookups []table.Key
	for key, err := range k.All(ctx, "") {
		if err != nil {
			return nil, err
		}
		lookups = append(lookups, lookupKey(key.Hash))
	}
	if len(lookups) == 0 {
		return nil, nil
	}
	items, err := k.Table.BatchGet(ctx, lookups, table.Consistent)
	if err != nil {
		return nil, err
	}
	keys, err := table.Decode[UsedKey](items)
	slices.SortFunc(keys, func(a, b UsedKey) int { return cmp.Compare(b.KeyID, a.KeyID) })
	return keys, err
}

// Delete removes a key; it is refused from then on. Errors: errs.NotFound, also for
// one deleted before.
func (k Keys) Delete(ctx context.Context, id string) error {
	_, err := k.Write(ctx, id, k.remove(id))
	return err
}

// remove is the change that removes a key.
func (k Keys) remove(id string) record.Change[APIKey] {
	return record.Change[APIKey]{
		Next: func(now *APIKey) (APIKey, error) {
			if now == nil {
				return APIKey{}, k.Absent(id)
			}
			return APIKey{}, record.ErrDelete
		},
		Also: func(o record.Outcome[APIKey]) []table.Write {
			return []table.Write{table.Delete{Key: lookupKey(o.Before.Hash)}}
		},
	}
}
