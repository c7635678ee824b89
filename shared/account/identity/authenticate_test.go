package identity_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

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

// watched counts the calls of a table and can make its updates fail.
type watched struct {
	table.Table
	reads, updates atomic.Int64
	fail           atomic.Bool
}

func (w *watched) Get(ctx context.Context, key table.Key, opts ...table.ReadOption) (table.Item, error) {
	w.reads.Add(1)
	return w.Table.Get(ctx, key, opts...)
}

func (w *watched) Query(ctx context.Context, q table.Query) (table.Page, error) {
	w.reads.Add(1)
	return w.Table.Query(ctx, q)
}

func (w *watched) Update(ctx context.Context, u table.Update) (table.Item, error) {
	w.updates.Add(1)
	if w.fail.Load() {
		return nil, errors.New("the table is on fire")
	}
	return w.Table.Update(ctx, u)
}

func authenticator(t *testing.T, env *localtest.Env, tbl table.Table, log *slog.Logger) *identity.Authenticator {
	t.Helper()
	verifier, err := env.Issuer.Verifier()
	require.NoError(t, err)
	a, err := identity.NewAuthenticator(identity.Config{
		Table: tbl, Clock: env.Clock, SignIn: verifier, SuperAdmins: []string{"Root@Platform.test"}, Log: log,
	})
	require.NoError(t, err)
	return a
}

func owner(w localtest.Workspace) context.Context {
	return tenant.With(context.Background(), tenant.Principal{OrgID: w.OrgID, Email: w.Owner, Role: tenant.Owner})
}

func TestMalformedCredentialIsRejectedWithoutRead(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	tbl := &watched{Table: env.Deps.Table}
	a := authenticator(t, env, tbl, nil)
	flipped := []byte(env.A.Key)
	flipped[10] ^= 1
	for _, bearer := range []string{
		"", "svc_", "svc_short", string(flipped), env.A.Key + "x", "mat_", "mat_" + env.A.Key[4:], "opaque", "a.b.c", "..",
		string(bytes.Repeat([]byte("x"), 1<<20)), env.SignIn(t, env.A.Owner) + "x",
	} {
		_, err := a.Authenticate(t.Context(), bearer, "", false)
		assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err), "%.20q: %v", bearer, err)
		if len(bearer) > 4 {
			assert.NotContains(t, err.Error(), bearer)
		}
	}
	assert.Zero(t, tbl.reads.Load())
}

func TestKeyIgnoresWorkspaceHeader(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a := authenticator(t, env, env.Deps.Table, nil)
	for _, header := range []string{"", env.A.OrgID, env.B.OrgID, "org_nonsense"} {
		for _, mutation := range []bool{false, true} {
			p, err := a.Authenticate(t.Context(), env.A.Key, header, mutation)
			require.NoError(t, err)
			assert.Equal(t, env.A.OrgID, p.OrgID)
			assert.Equal(t, env.A.Name, p.OrgName)
			assert.True(t, p.IsKey())
			assert.True(t, p.FullAccess)
			assert.Empty(t, p.Role)
			assert.Equal(t, env.A.Owner, p.Email)
		}
	}
	p, err := a.Authenticate(t.Context(), env.Key(t, env.A, "flows.read"), "", false)
	require.NoError(t, err)
	assert.False(t, p.FullAccess)
	assert.Equal(t, []string{"flows.read"}, p.Scopes)
}

func TestExpiryIsCheckedOnEveryRead(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a := authenticator(t, env, env.Deps.Table, nil)
	now := env.Clock.Now()
	_, secret, err := identity.NewKeys(env.Deps.Records()).Create(owner(env.A), identity.KeyRequest{Name: "short", ExpiresAt: now.Add(time.Hour)})
	require.NoError(t, err)
	_, err = a.Authenticate(t.Context(), secret, "", false)
	require.NoError(t, err)
	env.Clock.Advance(time.Hour + time.Second)
	_, err = a.Authenticate(t.Context(), secret, "", false)
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err))
}

func TestLastUseIsRecordedOncePerMinute(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	tbl := &watched{Table: env.Deps.Table}
	a := authenticator(t, env, tbl, nil)
	use := func() {
		_, err := a.Authenticate(t.Context(), env.A.Key, "", false)
		require.NoError(t, err)
	}
	lastUsed := func() (at clock.Millis) {
		keys, err := identity.NewKeys(record.Store{Table: env.Deps.Table}).List(tenant.With(t.Context(), tenant.Principal{OrgID: env.A.OrgID}))
		require.NoError(t, err)
		require.Len(t, keys, 1)
		if used := keys[0].LastUsedAt; used != nil {
			at = *used
		}
		return at
	}
	assert.Zero(t, lastUsed())
	for range 10 {
		use()
	}
	assert.EqualValues(t, 1, tbl.updates.Load())
	first := lastUsed()
	assert.WithinDuration(t, env.Clock.Now(), first.Time(), 10*time.Second)
	env.Clock.Advance(61 * time.Second)
	use()
	use()
	assert.EqualValues(t, 2, tbl.updates.Load())
	assert.Greater(t, lastUsed(), first)
}

func TestFailureToRecordUseIsOnlyLogged(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	tbl := &watched{Table: env.Deps.Table}
	tbl.fail.Store(true)
	var out bytes.Buffer
	a := authenticator(t, env, tbl, slog.New(slog.NewTextHandler(&out, nil)))
	p, err := a.Authenticate(t.Context(), env.A.Key, "", false)
	require.NoError(t, err)
	assert.Equal(t, env.A.OrgID, p.OrgID)
	assert.Contains(t, out.String(), "on fire")
	assert.NotContains(t, out.String(), env.A.Key)
}

func TestRecordingUseDoesNotRestoreDeletedKey(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	key, secret, err := identity.NewKeys(env.Deps.Records()).Create(owner(env.A), identity.KeyRequest{Name: "k"})
	require.NoError(t, err)
	// The key is deleted between its read and the record of its use.
	tbl := &deleting{Table: env.Deps.Table, do: func() {
		require.NoError(t, identity.NewKeys(env.Deps.Records()).Delete(owner(env.A), key.KeyID))
	}}
	_, err = authenticator(t, env, tbl, nil).Authenticate(t.Context(), secret, "", false)
	require.NoError(t, err)
	_, err = authenticator(t, env, env.Deps.Table, nil).Authenticate(t.Context(), secret, "", false)
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err))
}

type deleting struct {
	table.Table
	do func()
}

func (d *deleting) Update(ctx context.Context, u table.Update) (table.Item, error) {
	d.do()
	return d.Table.Update(ctx, u)
}

func TestHeaderSelectsAmongMemberships(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a := authenticator(t, env, env.Deps.Table, nil)
	const email = "ann@example.com"
	for i, w := range []localtest.Workspace{env.B, env.A} { // B first
		_, err := identity.AddMember(owner(w), env.Deps.Table, env.Clock.Now(), w.OrgID, email, []tenant.Role{tenant.Viewer, tenant.Admin}[i])
		require.NoError(t, err)
		env.Clock.Advance(time.Second)
	}
	token := env.SignIn(t, "Ann@Example.com")
	stranger := env.Workspace(t, "C", "owner@c.test").OrgID

	for _, c := range []struct {
		header   string
		mutation bool
		org      string
		role     tenant.Role
		code     errs.Code
	}{
		{"", false, env.B.OrgID, tenant.Viewer, ""},
		{"", true, env.B.OrgID, tenant.Viewer, ""},
		{env.A.OrgID, false, env.A.OrgID, tenant.Admin, ""},
		{env.A.OrgID, true, env.A.OrgID, tenant.Admin, ""},
		{env.B.OrgID, true, env.B.OrgID, tenant.Viewer, ""},
		{stranger, false, env.B.OrgID, tenant.Viewer, ""},
		{stranger, true, "", "", errs.Forbidden},
		{"nonsense", false, env.B.OrgID, tenant.Viewer, ""},
		{"nonsense", true, "", "", errs.Forbidden},
	} {
		p, err := a.Authenticate(t.Context(), token, c.header, c.mutation)
		require.Equal(t, c.code, errs.CodeOf(err), "%+v: %v", c, err)
		assert.Equal(t, c.org, p.OrgID, "%+v", c)
		assert.Equal(t, c.role, p.Role, "%+v", c)
		if err == nil {
			assert.Equal(t, email, p.Email)
			assert.False(t, p.IsKey())
		}
	}
}

func TestUserWithoutWorkspace(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a := authenticator(t, env, env.Deps.Table, nil)
	p, err := a.Authenticate(t.Context(), env.SignIn(t, "new@example.com"), "", true)
	require.NoError(t, err)
	assert.Equal(t, tenant.Principal{Email: "new@example.com"}, p)
	_, err = a.Authenticate(t.Context(), env.SignIn(t, "new@example.com"), env.A.OrgID, true)
	assert.Equal(t, errs.Forbidden, errs.CodeOf(err))
}

func TestSuspendedAccessIsForbidden(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a := authenticator(t, env, env.Deps.Table, nil)
	code := func(bearer, header string) errs.Code {
		_, err := a.Authenticate(t.Context(), bearer, header, false)
		return errs.CodeOf(err)
	}
	viewer, ownerToken := env.User(t, env.A, tenant.Viewer), env.SignIn(t, env.A.Owner)
	now, email := env.Clock.Now(), localtest.UserEmail(env.A, tenant.Viewer)
	before := env.AuditCount(t, env.A.OrgID)

	require.NoError(t, identity.SuspendMember(owner(env.A), env.Deps.Table, now, env.A.OrgID, email, true))
	assert.Equal(t, errs.Forbidden, code(viewer, ""))
	assert.Equal(t, errs.Forbidden, code(viewer, env.A.OrgID))
	assert.Empty(t, code(ownerToken, ""))
	// Another workspace of the user stays accessible, but not with the suspended
	// one in the header.
	_, err := identity.AddMember(owner(env.B), env.Deps.Table, now, env.B.OrgID, email, tenant.Viewer)
	require.NoError(t, err)
	p, err := a.Authenticate(t.Context(), viewer, "", false)
	require.NoError(t, err)
	assert.Equal(t, env.B.OrgID, p.OrgID)
	assert.Equal(t, errs.Forbidden, code(viewer, env.A.OrgID))
	require.NoError(t, identity.SuspendMember(owner(env.A), env.Deps.Table, now, env.A.OrgID, email, false))
	assert.Empty(t, code(viewer, env.A.OrgID))

	require.NoError(t, identity.SuspendWorkspace(owner(env.A), env.Deps.Table, now, env.A.OrgID, true))
	assert.Equal(t, errs.Forbidden, code(ownerToken, ""))
	assert.Equal(t, errs.Forbidden, code(env.A.Key, ""))
	assert.Empty(t, code(env.B.Key, ""))
	require.NoError(t, identity.SuspendWorkspace(owner(env.A), env.Deps.Table, now, env.A.OrgID, false))
	assert.Empty(t, code(env.A.Key, ""))

	require.NoError(t, identity.SuspendMember(owner(env.A), env.Deps.Table, now, env.A.OrgID, email, false))
	require.NoError(t, identity.SuspendWorkspace(owner(env.A), env.Deps.Table, now, env.A.OrgID, false))
	assert.Equal(t, before+4, env.AuditCount(t, env.A.OrgID), "four changes; the last two changed nothing")
	assert.Equal(t, errs.NotFound, errs.CodeOf(identity.SuspendMember(owner(env.A), env.Deps.Table, now, env.A.OrgID, "no@one.test", true)))
	assert.Equal(t, errs.NotFound, errs.CodeOf(identity.SuspendWorkspace(owner(env.A), env.Deps.Table, now, "org_none", true)))
	assert.Equal(t, before+4, env.AuditCount(t, env.A.OrgID))
}

func TestSuperAdminsAreUsersOnly(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a := authenticator(t, env, env.Deps.Table, nil)
	root := env.Workspace(t, "Root", "root@platform.test")
	p, err := a.Authenticate(t.Context(), env.SignIn(t, "root@platform.test"), "", false)
	require.NoError(t, err)
	assert.True(t, p.SuperAdmin)
	p, err = a.Authenticate(t.Context(), root.Key, "", false)
	require.NoError(t, err)
	assert.False(t, p.SuperAdmin)
	p, err = a.Authenticate(t.Context(), env.SignIn(t, env.A.Owner), "", false)
	require.NoError(t, err)
	assert.False(t, p.SuperAdmin)

	_, err = identity.NewAuthenticator(identity.Config{SuperAdmins: []string{"nonsense"}})
	assert.Equal(t, errs.Invalid, errs.CodeOf(err))
}

func TestTokenIsRejectedWithoutIdentityProvider(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a, err := identity.NewAuthenticator(identity.Config{Table: env.Deps.Table, Clock: env.Clock})
	require.NoError(t, err)
	_, err = a.Authenticate(t.Context(), env.SignIn(t, env.A.Owner), "", false)
	assert.Equal(t, errs.Unauthenticated, errs.CodeOf(err))
}

func BenchmarkAuthenticate(b *testing.B) {
	env := localtest.New(b)
	verifier, err := env.Issuer.Verifier()
	require.NoError(b, err)
	a, err := identity.NewAuthenticator(identity.Config{Table: env.Deps.Table, Clock: env.Clock, SignIn: verifier})
	require.NoError(b, err)
	for name, bearer := range map[string]string{
		"key": env.A.Key, "token": env.SignIn(b, env.A.Owner), "malformed": env.A.Key[:52] + "!",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = a.Authenticate(b.Context(), bearer, "", false)
			}
		})
	}
}

// TestSuspendedMemberKeysAreRejected covers the member's keys and keys created
// with them, in this workspace only.
func TestSuspendedMemberKeysAreRejected(t *testing.T) {
	t.Parallel()
	env := localtest.New(t)
	a := authenticator(t, env, env.Deps.Table, nil)
	now := env.Clock.Now()
	const email = "dev@example.com"
	key := func(w localtest.Workspace, p tenant.Principal) (string, identity.APIKey) {
		p.OrgID = w.OrgID
		k, secret, err := identity.NewKeys(env.Deps.Records()).Create(tenant.With(t.Context(), p), identity.KeyRequest{Name: "k"})
		require.NoError(t, err)
		return secret, k
	}
	for _, w := range []localtest.Workspace{env.A, env.B} {
		_, err := identity.AddMember(owner(w), env.Deps.Table, now, w.OrgID, email, tenant.Owner)
		require.NoError(t, err)
	}
	own, made := key(env.A, tenant.Principal{Email: email, Role: tenant.Owner})
	derived, _ := key(env.A, tenant.Principal{Email: email, KeyID: made.KeyID, FullAccess: true})
	elsewhere, _ := key(env.B, tenant.Principal{Email: email, Role: tenant.Owner})
	code := func(bearer string) errs.Code {
		_, err := a.Authenticate(t.Context(), bearer, "", true)
		return errs.CodeOf(err)
	}
	for suspended, want := range map[bool]errs.Code{true: errs.Forbidden, false: ""} {
		require.NoError(t, identity.SuspendMember(owner(env.A), env.Deps.Table, now, env.A.OrgID, email, suspended))
		assert.Equal(t, want, code(own), suspended)
		assert.Equal(t, want, code(derived), suspended)
		assert.Empty(t, code(elsewhere))
		assert.Empty(t, code(env.A.Key), "another member's")
	}
}
