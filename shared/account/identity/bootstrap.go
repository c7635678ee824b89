package identity

import (
	"context"
	"errors"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// Credentials are created by the first start of a self-hosted server.
type Credentials struct {
	OrgID  string
	Email  string // of the workspace's owner
	APIKey string // with full access
}

// bootstrapItem records what the first start created.
type bootstrapItem struct {
	table.Key
	OrgID string       `table:"org_id"`
	Email string       `table:"email"`
	KeyID string       `table:"key_id"`
	At    clock.Millis `table:"made_at"`
}

var bootstrapKey = table.Key{PK: "platform", SK: "bootstrap"}

// Bootstrap creates, at a server's first start, a workspace, its owner and an
// API key with full access, in one transaction. known are the credentials of an
// earlier start, if the caller still has them.
//
// A later call returns known unchanged, even if its key was deleted in the
// meantime, which somebody did on purpose. If known is not from the first start
// of this table, because the caller died before it stored the credentials or
// lost them, the first key is replaced, because nobody can know its secret.
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
	case known.OrgID == made.OrgID && validSecret(KeyPrefix, known.APIKey):
		return Credentials{OrgID: made.OrgID, Email: made.Email, APIKey: known.APIKey}, nil
	}
	return replaceKey(ctx, t, now, made)
}

func firstStart(ctx context.Context, t table.Table, now time.Time, name, email string) (Credentials, error) {
	w, writes := newWorkspace(ctx, now, name, email)
	ctx = tenant.With(ctx, tenant.Principal{OrgID: w.OrgID, Email: email, Role: tenant.Owner})
	keys := bootstrapKeys(t, now)
	id, secret, change := keys.create(ctx, KeyRequest{Name: firstKey})
	_, made, entry, err := keys.Prepare(ctx, id, change)
	if err != nil {
		return Credentials{}, err
	}
	writes = append(append(writes, made...), audit.Entry(ctx, now, entry), table.Put{If: table.IsNew(), Item: bootstrapItem{
		Key: bootstrapKey, OrgID: w.OrgID, Email: email, KeyID: id, At: clock.ToMillis(now),
	}})
	if err := t.Transact(ctx, writes...); err != nil {
		return Credentials{}, err
	}
	return Credentials{OrgID: w.OrgID, Email: email, APIKey: secret}, nil
}

func replaceKey(ctx context.Context, t table.Table, now time.Time, made bootstrapItem) (Credentials, error) {
	ctx = tenant.With(ctx, tenant.Principal{OrgID: made.OrgID, Email: made.Email, Role: tenant.Owner})
	keys := bootstrapKeys(t, now)
	id, secret, change := keys.create(ctx, KeyRequest{Name: firstKey})
	writes := []table.Write{table.Update{
		Key: bootstrapKey, Do: []table.Action{table.Set("key_id", id)}, If: table.Eq("key_id", made.KeyID),
	}}
	for key, c := range map[string]record.Change[APIKey]{id: change, made.KeyID: keys.remove(made.KeyID)} {
		_, more, entry, err := keys.Prepare(ctx, key, c)
		if errs.CodeOf(err) == errs.NotFound {
			continue // the old one was deleted
		}
		if err != nil {
			return Credentials{}, err
		}
		writes = append(append(writes, more...), audit.Entry(ctx, now, entry))
	}
	if err := t.Transact(ctx, writes...); err != nil {
		if errors.Is(err, table.ErrConditionFailed) {
			return Credentials{}, errs.Wrap(errs.Conflict, err, "another first start is under way")
		}
		return Credentials{}, err
	}
	return Credentials{OrgID: made.OrgID, Email: made.Email, APIKey: secret}, nil
}

// firstKey names the key of a first start.
const firstKey = "first start"

func bootstrapKeys(t table.Table, now time.Time) Keys {
	return NewKeys(record.Store{Table: t, Clock: clock.Func(func() time.Time { return now })})
}
