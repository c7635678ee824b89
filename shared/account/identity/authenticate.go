package identity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/table"
)

const (
	// useInterval is the precision of an API key's last use.
	useInterval = time.Minute
	// useTimeout bounds the delay that recording a use adds to a request.
	useTimeout = 250 * time.Millisecond
	// maxBearer is the longest accepted credential in bytes.
	maxBearer = 16 << 10
)

// Config configures an [Authenticator].
type Config struct {
	Table table.Table
	Clock clock.Clock
	// SignIn checks sign-in tokens; nil rejects all of them.
	SignIn *SignIn
	// SuperAdmins are the emails of the platform's administrators.
	SuperAdmins []string
	Log         *slog.Logger // nil: slog.Default
}

// Authenticator turns bearer credentials into principals. It is safe for
// concurrent use.
type Authenticator struct {
	c           Config
	superAdmins map[string]bool
}

// NewAuthenticator returns an Authenticator. Errors: errs.Invalid for an
// invalid email of a super administrator.
func NewAuthenticator(c Config) (*Authenticator, error) {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	a := &Authenticator{c: c, superAdmins: map[string]bool{}}
	for _, s := range c.SuperAdmins {
		email, err := ParseEmail(s)
		if err != nil {
			return nil, err
		}
		a.superAdmins[email] = true
	}
	return a, nil
}

// errCredential is the error of every bad credential. It does not tell why.
func errCredential(cause error) error {
	return errs.Wrap(errs.Unauthenticated, cause, "invalid, expired or revoked credential")
}

// Authenticate returns the principal of a bearer credential. orgHeader is the
// request's X-Org-Id, "" without one; mutation tells whether the request
// changes state.
//
// An API key belongs to one workspace and ignores orgHeader. A user acts in the
// workspace that orgHeader names, or, without the header, in the one that the
// access token was approved for. If the user is not a member of it, a mutation
// is rejected, and a read falls back, like a request that names none, to the
// workspace joined first. A user without a workspace has an empty OrgID.
//
// Errors: errs.Unauthenticated for a missing, malformed, unknown, expired or
// revoked credential; errs.Forbidden for suspended access, a workspace that is
// not the user's, and an email that is missing or not verified.
func (a *Authenticator) Authenticate(ctx context.Context, bearer, orgHeader string, mutation bool) (tenant.Principal, error) {
	switch {
	case bearer == "":
		return tenant.Principal{}, errs.New(errs.Unauthenticated, "missing credential")
	case len(bearer) > maxBearer:
		return tenant.Principal{}, errCredential(errors.New("credential too long"))
	case strings.HasPrefix(bearer, KeyPrefix):
		return a.key(ctx, bearer)
	case strings.HasPrefix(bearer, TokenPrefix):
		return a.accessToken(ctx, bearer, orgHeader, mutation)
	case strings.Count(bearer, ".") == 2: // a JWT
		email, err := a.signIn(ctx, bearer)
		if err != nil {
			return tenant.Principal{}, err
		}
		u, err := loadUser(ctx, a.c.Table, email)
		if err != nil {
			return tenant.Principal{}, err
		}
		return a.session(ctx, u, orgHeader, mutation)
	}
	return tenant.Principal{}, errCredential(errors.New("unknown kind of credential"))
}

// key authenticates an API key.
func (a *Authenticator) key(ctx context.Context, secret string) (tenant.Principal, error) {
	if !validSecret(KeyPrefix, secret) {
		return tenant.Principal{}, errCredential(errors.New("malformed API key"))
	}
	k, err := table.Load[UsedKey](ctx, a.c.Table, lookupKey(hashSecret(secret)), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return tenant.Principal{}, errCredential(errors.New("unknown API key"))
	}
	if err != nil {
		return tenant.Principal{}, err
	}
	now := a.c.Clock.Now()
	if k.ExpiresAt != nil && expired(*k.ExpiresAt, now) {
		return tenant.Principal{}, errCredential(errors.New("API key has expired"))
	}
	w, maker, err := workspaceOf(ctx, a.c.Table, k)
	if err != nil {
		return tenant.Principal{}, err
	}
	if w.Suspended || maker.Suspended {
		return tenant.Principal{}, errSuspended()
	}
	a.noteUse(ctx, k, now)
	return tenant.Principal{
		OrgID: w.OrgID, OrgName: w.Name,
		Email: k.CreatedBy, KeyID: k.KeyID, Scopes: k.Scopes, FullAccess: k.FullAccess(),
	}, nil
}

// workspaceOf reads a key's workspace and the membership of who made the key, whose
// suspension holds for the keys as well; zero if they are no member any more. It is
// one request. Errors: errs.NotFound.
func workspaceOf(ctx context.Context, t table.Table, k UsedKey) (w Workspace, maker Membership, err error) {
	keys := []table.Key{workspaceKey(k.OrgID)}
	if k.CreatedBy != "" {
		keys = append(keys, memberKey(k.OrgID, k.CreatedBy))
	}
	items, err := t.BatchGet(ctx, keys, table.Consistent)
	if err != nil {
		return w, maker, err
	}
	for _, item := range items {
		if item.Key() == keys[0] {
			err = errors.Join(err, table.Unmarshal(item, &w))
		} else {
			err = errors.Join(err, table.Unmarshal(item, &maker))
		}
	}
	if err == nil && w.OrgID == "" {
		err = errs.New(errs.NotFound, "workspace not found")
	}
	return w, maker, err
}

// noteUse writes when a key was used, unless that is known to the minute. It
// matters less than the request: what goes wrong is logged.
func (a *Authenticator) noteUse(ctx context.Context, k UsedKey, now time.Time) {
	before := now.Add(-useInterval)
	if k.LastUsedAt != nil && k.LastUsedAt.Time().After(before) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, useTimeout)
	defer cancel()
	_, err := a.c.Table.Update(ctx, table.Update{
		Key: k.Key,
		Do:  []table.Action{table.Set("last_used_at", clock.ToMillis(now))},
		If: table.And(table.IsStored(), table.Or(
			table.Absent("last_used_at"), table.Le("last_used_at", clock.ToMillis(before)))),
	})
	// The condition fails if another request recorded the use or the key was
	// deleted.
	if err != nil && !errors.Is(err, table.ErrConditionFailed) {
		a.c.Log.WarnContext(ctx, "note use of API key", "key_id", k.KeyID, "org_id", k.OrgID, "error", err)
	}
}

// signIn checks a sign-in token and returns its email.
func (a *Authenticator) signIn(ctx context.Context, token string) (string, error) {
	if a.c.SignIn == nil {
		return "", errCredential(errors.New("no identity provider is configured"))
	}
	return a.c.SignIn.email(ctx, token, a.c.Clock.Now())
}

// accessToken authenticates an access token.
func (a *Authenticator) accessToken(ctx context.Context, token, orgHeader string, mutation bool) (tenant.Principal, error) {
	s, err := loadSession(ctx, a.c.Table, token)
	if err != nil {
		return tenant.Principal{}, err
	}
	if !a.c.Clock.Now().Before(s.ExpiresAt.Time()) { //guard:identity/session-expiry false
		return tenant.Principal{}, errCredential(errors.New("access token has expired"))
	}
	u, err := loadUser(ctx, a.c.Table, s.Email)
	if err != nil {
		return tenant.Principal{}, err
	}
	if u.Logouts != s.Logouts { //guard:identity/logout false
		return tenant.Principal{}, errCredential(errors.New("access token was revoked by a logout"))
	}
	p, err := a.session(ctx, u, cmp.Or(orgHeader, s.OrgID), mutation)
	p.SessionID = s.SessionID
	return p, err
}

// session selects the workspace in which a user acts; org names it, "" if
// nothing does.
func (a *Authenticator) session(ctx context.Context, u User, org string, mutation bool) (tenant.Principal, error) {
	p := tenant.Principal{Email: u.Email, SuperAdmin: a.superAdmins[u.Email]}
	all := u.Memberships
	if org != "" {
		i := slices.IndexFunc(all, func(m Membership) bool { return m.OrgID == org })
		switch {
		case i >= 0:
			all = all[i : i+1]
		case mutation:
			return tenant.Principal{}, errs.New(errs.Forbidden, "X-Org-Id, or what you signed in for, names no workspace of yours")
		}
	}
	if len(all) == 0 {
		return p, nil
	}
	for _, m := range all {
		if m.Suspended {
			continue
		}
		w, err := GetWorkspace(ctx, a.c.Table, m.OrgID)
		if err != nil {
			return tenant.Principal{}, err
		}
		if !w.Suspended {
			p.OrgID, p.OrgName, p.Role = w.OrgID, w.Name, m.Role
			return p, nil
		}
	}
	return tenant.Principal{}, errSuspended()
}

func errSuspended() error {
	return errs.New(errs.Forbidden, "access to this workspace is suspended")
}
