package identity

import (
	"context"
	"errors"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/table"
)

// TokenLifetime is how long an access token is valid.
const TokenLifetime = 24 * time.Hour

// kept is how long expired sessions and device grants are kept.
const kept = time.Hour

// Session is an access token without the token itself. It is stored under the
// token's hash.
type Session struct {
	table.Key
	SessionID string       `table:"session_id"`
	Email     string       `table:"email"`
	OrgID     string       `table:"org_id,omitempty"` // the workspace it was approved for; empty: none in particular
	Logouts   int64        `table:"logouts"`          // of the user when it was made; revoked if there are more
	CreatedAt clock.Millis `table:"created_at"`
	ExpiresAt clock.Millis `table:"expires_at"`
	TTL       int64        `table:"ttl"`
}

func sessionKey(hash string) table.Key { return table.Key{PK: "session#" + hash, SK: "session"} }

// User is a user with their memberships, the earliest joined first.
type User struct {
	Email       string
	Logouts     int64 // access tokens of an earlier count are revoked
	Memberships []Membership
}

// loadUser reads a user in one query; one who is unknown has no memberships.
func loadUser(ctx context.Context, t table.Table, email string) (User, error) {
	u := User{Email: email}
	key := userKey(email) // its sort key is greater than those of the memberships
	for item, err := range table.All(ctx, t, table.Query{PK: key.PK, Range: table.Between("org#", key.SK), Consistent: true}) {
		if err != nil {
			return u, err
		}
		if item.Key() == key {
			u.Logouts = item["logouts"].Int()
			continue
		}
		var m Membership
		if err := table.Unmarshal(item, &m); err != nil {
			return u, err
		}
		u.Memberships = append(u.Memberships, m)
	}
	sortMemberships(u.Memberships)
	return u, nil
}

// loadSession returns the session of an access token, which may have expired
// or been revoked. Errors: errs.Unauthenticated for an unknown token.
func loadSession(ctx context.Context, t table.Table, token string) (Session, error) {
	if !validSecret(TokenPrefix, token) {
		return Session{}, errCredential(errors.New("malformed access token"))
	}
	s, err := table.Load[Session](ctx, t, sessionKey(hashSecret(token)), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return Session{}, errCredential(errors.New("unknown access token"))
	}
	return s, err
}

// Sessions issues access tokens and revokes them.
type Sessions struct {
	Table table.Table
	Clock clock.Clock
	Quota *quota.Quota // nil: logins are not limited
}

// newSession returns the session of a new access token.
func newSession(now time.Time, u User, org string) (Session, string) {
	token, expires := newSecret(TokenPrefix), now.Add(TokenLifetime)
	return Session{
		Key: sessionKey(hashSecret(token)), SessionID: "ses_" + ids.New(now), Email: u.Email, OrgID: org, Logouts: u.Logouts,
		CreatedAt: clock.ToMillis(now), ExpiresAt: clock.ToMillis(expires), TTL: expires.Add(kept).Unix(),
	}, token
}

// writes returns the writes that store a session, with an audit entry in the
// workspace org, if there is one.
func (s Session) writes(ctx context.Context, org string, now time.Time, metadata map[string]any) []table.Write {
	out := []table.Write{table.Put{Item: s, If: table.IsNew()}}
	if org == "" {
		return out
	}
	return append(out, audit.EntryFor(ctx, org, now, audit.Change{
		Action: "login", ResourceType: "session", ResourceID: s.SessionID, Metadata: metadata,
		After: map[string]any{"session_id": s.SessionID, "user_email": s.Email, "org_id": s.OrgID, "expires_at": s.ExpiresAt.String()},
	}))
}

// Create issues an access token to ctx's user. It is audited in the workspace
// that the request acts in, if there is one. Errors: errs.TooMany.
func (s Sessions) Create(ctx context.Context) (Session, string, error) {
	p, now := tenant.From(ctx), s.Clock.Now()
	if err := s.Quota.Rate(ctx, quota.Logins, p.Email); err != nil {
		return Session{}, "", err
	}
	u, err := loadUser(ctx, s.Table, p.Email)
	if err != nil {
		return Session{}, "", err
	}
	made, token := newSession(now, u, "")
	return made, token, s.Table.Transact(ctx, made.writes(ctx, p.OrgID, now, nil)...)
}

// Get returns the session of an access token. Errors: errs.Unauthenticated for
// an unknown one.
func (s Sessions) Get(ctx context.Context, token string) (Session, error) {
	return loadSession(ctx, s.Table, token)
}

// Revoke revokes all access tokens of ctx's user, and device authorizations
// that the user approved. It is audited like Create.
func (s Sessions) Revoke(ctx context.Context) error {
	p, now := tenant.From(ctx), s.Clock.Now()
	writes := []table.Write{table.Update{Key: userKey(p.Email), Do: []table.Action{
		table.Add("logouts", 1), table.SetIfAbsent("email", p.Email), table.SetIfAbsent("created_at", clock.ToMillis(now)),
	}}}
	if p.OrgID != "" {
		writes = append(writes, audit.Entry(ctx, now, audit.Change{
			Action: "logout", ResourceType: "session", ResourceID: p.Email, Metadata: map[string]any{"session_id": p.SessionID},
		}))
	}
	return s.Table.Transact(ctx, writes...)
}
