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

// Credentials is what the first start of a server of one's own gives.
type Credentials struct {
	OrgID  string
	Email  string // of the workspace's owner
	APIKey string // with full access
}

// bootstrapItem says what the first start made.
type bootstrapItem struct {
	table.Key
	OrgID string       `table:"org_id"`
	Email string       `table:"email"`
	KeyID string       `table:"key_id"`
	At    clock.Millis `table:"made_at"`
}

var bootstrapKey = table.Key{PK: "platform", SK: "bootstrap"}

// Bootstrap makes, at a server's first start, a workspace, its owner and an API
// key with full access, in one transaction. known is what an earlier start
// gave, as far as the caller still has it.
//
// Called again it returns known as it is, even when its key has been deleted
// since: that was somebody's decision. If known is not of this table's first
// start, because the caller died before it kept the credentials or lost them,
// the key they held is replaced, since no one can have its secret.
func Bootstrap(ctx context.Context, t table.Table, now time.Time, workspace, email string, known Credentials) (Credentials, error) {
	email, err := ParseEmail(email)
	if err != nil {
		return Credentials{}, err
	}
	made, err := table.Load[bootstrapItem](ctx, t, bootstrapKey, table.Consistent)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return firstStart(ctx, t, now, workspace, email)
	case err != nil:
		return Credentials{}, err
	case known.OrgID == made.OrgID && validSecret(known.APIKey):
		return Credentials{OrgID: made.OrgID, Email: made.Email, APIKey: known.APIKey}, nil
	}
	return replaceKey(ctx, t, now, made)
}

func firstStart(ctx context.Context, t table.Table, now time.Time, name, email string) (Credentials, error) {
	ctx = tenant.With(ctx, tenant.Principal{Email: email, Role: tenant.Owner})
	w, writes := newWorkspace(ctx, now, name, email)
	key, secret, keyWrites := newKey(ctx, now, bootstrapRequest(w.OrgID))
	writes = append(writes, keyWrites...)
	writes = append(writes, table.Put{If: table.IsNew(), Item: bootstrapItem{
		Key: bootstrapKey, OrgID: w.OrgID, Email: email, KeyID: key.KeyID, At: clock.ToMillis(now),
	}})
	if err := t.Transact(ctx, writes...); err != nil {
		return Credentials{}, err
	}
	return Credentials{OrgID: w.OrgID, Email: email, APIKey: secret}, nil
}

func replaceKey(ctx context.Context, t table.Table, now time.Time, made bootstrapItem) (Credentials, error) {
	ctx = tenant.With(ctx, tenant.Principal{OrgID: made.OrgID, Email: made.Email, Role: tenant.Owner})
	key, secret, writes := newKey(ctx, now, bootstrapRequest(made.OrgID))
	old, err := table.Load[keyItem](ctx, t, listKey(made.OrgID, made.KeyID), table.Consistent)
	switch {
	case err == nil:
		writes = append(writes, deleteKey(ctx, now, old)...)
	case !errors.Is(err, table.ErrNotFound):
		return Credentials{}, err
	}
	writes = append(writes, table.Update{
		Key: bootstrapKey, Do: []table.Action{table.Set("key_id", key.KeyID)}, If: table.Eq("key_id", made.KeyID),
	})
	if err := t.Transact(ctx, writes...); err != nil {
		if errors.Is(err, table.ErrConditionFailed) {
			return Credentials{}, errs.Wrap(errs.Conflict, err, "another first start is under way")
		}
		return Credentials{}, err
	}
	return Credentials{OrgID: made.OrgID, Email: made.Email, APIKey: secret}, nil
}

func bootstrapRequest(org string) KeyRequest {
	return KeyRequest{OrgID: org, Name: "first start"}
}
