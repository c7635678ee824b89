package identity_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/proof/localtest"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/record"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

// dying fails a transaction before or after it is applied.
type dying struct {
	table.Table
	after bool
}

func (d dying) Transact(ctx context.Context, writes ...table.Write) error {
	if d.after {
		if err := d.Table.Transact(ctx, writes...); err != nil {
			return err
		}
	}
	return errors.New("killed")
}

func TestBootstrapIsDoneOnce(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	tbl, now := env.Deps.Table, env.Clock.Now()
	boot := func(tbl table.Table, known identity.Credentials) (identity.Credentials, error) {
		return identity.Bootstrap(t.Context(), tbl, now, "Local", "Owner@Local.test", known)
	}
	none := identity.Credentials{}

	// Killed before the transaction: nothing was created.
	_, err := boot(dying{tbl, false}, none)
	require.Error(t, err)
	ms, err := identity.Memberships(t.Context(), tbl, "owner@local.test")
	require.NoError(t, err)
	assert.Empty(t, ms)

	// Killed after it: the credentials are lost, so the key is replaced.
	_, err = boot(dying{tbl, true}, none)
	require.Error(t, err)
	ms, err = identity.Memberships(t.Context(), tbl, "owner@local.test")
	require.NoError(t, err)
	require.Len(t, ms, 1)
	org := ms[0].OrgID
	lost, err := identity.NewKeys(record.Store{Table: tbl}).List(tenant.With(t.Context(), tenant.Principal{OrgID: org}))
	require.NoError(t, err)
	require.Len(t, lost, 1)

	got, err := boot(tbl, none)
	require.NoError(t, err)
	assert.Equal(t, org, got.OrgID)
	assert.Equal(t, "owner@local.test", got.Email)
	keys, err := identity.NewKeys(record.Store{Table: tbl}).List(tenant.With(t.Context(), tenant.Principal{OrgID: org}))
	require.NoError(t, err)
	require.Len(t, keys, 1)
	assert.NotEqual(t, lost[0].KeyID, keys[0].KeyID)
	p, err := authenticator(t, env, tbl, nil).Authenticate(t.Context(), got.APIKey, "", true)
	require.NoError(t, err)
	assert.True(t, p.FullAccess)
	assert.Equal(t, org, p.OrgID)

	// Later starts change nothing.
	audited := env.AuditCount(t, org)
	again, err := boot(tbl, got)
	require.NoError(t, err)
	assert.Equal(t, got, again)
	assert.Equal(t, audited, env.AuditCount(t, org))

	// A key deleted on purpose stays deleted.
	ctx := tenant.With(t.Context(), tenant.Principal{OrgID: org, Email: got.Email, Role: tenant.Owner})
	require.NoError(t, identity.NewKeys(record.Store{Table: tbl, Clock: clock.System{}}).Delete(ctx, keys[0].KeyID))
	again, err = boot(tbl, got)
	require.NoError(t, err)
	assert.Equal(t, got, again)
	_, err = authenticator(t, env, tbl, nil).Authenticate(t.Context(), got.APIKey, "", true)
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err))

	// Credentials of another data directory are replaced.
	other, err := boot(tbl, identity.Credentials{OrgID: "org_other", APIKey: got.APIKey})
	require.NoError(t, err)
	assert.Equal(t, org, other.OrgID)
	assert.NotEqual(t, got.APIKey, other.APIKey)

	_, err = identity.Bootstrap(t.Context(), tbl, now, "Local", "nonsense", none)
	assert.Equal(t, errs.Invalid, errs.CodeOf(err))
}
