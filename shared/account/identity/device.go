package identity

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"time"

	"millrace/shared/account/audit"
	"millrace/shared/account/quota"
	"millrace/shared/account/tenant"
	"millrace/shared/kit/ratelimit"
	"millrace/shared/platform/clock"
	"millrace/shared/platform/errs"
	"millrace/shared/platform/ids"
	"millrace/shared/platform/keyring"
	"millrace/shared/platform/table"
)

// Limits of device authorizations.
const (
	GrantLifetime = 5 * time.Minute
	WrongCodes    = 10 // wrong user codes that a user, or an address, may send within WrongCodesPer
	WrongCodesPer = 5 * time.Minute

	userCodeDigits = 8
	deviceCodeLen  = 32 // random bytes
)

// grantStatus is the state of a device authorization.
type grantStatus string

const (
	pending  grantStatus = "pending"
	approved grantStatus = "approved"
	consumed grantStatus = "consumed"
)

// grant is a device authorization. It is stored under the hash of its device
// code.
type grant struct {
	table.Key
	GrantID   string       `table:"grant_id"`
	Status    grantStatus  `table:"status"`
	Email     string       `table:"email,omitempty"` // of who approved it, and what they approved it for
	OrgID     string       `table:"org_id,omitempty"`
	OrgName   string       `table:"org_name,omitempty"`
	Logouts   int64        `table:"logouts"` // of the user at the approval; void if there are more
	ExpiresAt clock.Millis `table:"expires_at"`
	TTL       int64        `table:"ttl"`
}

// userCode finds a grant by its user code. It is stored under the code's keyed
// hash, because a plain one of eight digits is soon reversed.
type userCode struct {
	table.Key
	Grant     string       `table:"grant"` // partition of the grant
	ExpiresAt clock.Millis `table:"expires_at"`
	TTL       int64        `table:"ttl"`
}

func grantKey(hash string) table.Key    { return table.Key{PK: "device#" + hash, SK: "grant"} }
func userCodeKey(hash string) table.Key { return table.Key{PK: "device#code#" + hash, SK: "code"} }

// Devices are the device authorizations: a device that has no browser gets an
// access token, after its user has approved it in one.
type Devices struct {
	Sessions
	Keys *keyring.Ring // of the hashes of user codes
}

// errGone is the answer to a device code that cannot be redeemed.
func errGone() error {
	return errs.New(errs.Gone, "The device authorization has expired or was used already: start another one")
}

// Start creates an authorization for a device at an address. Errors:
// errs.TooMany.
func (d Devices) Start(ctx context.Context, address string) (deviceCode, code string, err error) {
	if err := d.Quota.Rate(ctx, quota.DeviceGrants, network(address)); err != nil {
		return "", "", err
	}
	now := d.Clock.Now()
	expires := clock.ToMillis(now.Add(GrantLifetime))
	deviceCode = ids.Token(deviceCodeLen)
	g := grant{
		Key: grantKey(hashSecret(deviceCode)), GrantID: "dev_" + ids.New(now), Status: pending,
		ExpiresAt: expires, TTL: now.Add(GrantLifetime + kept).Unix(),
	}
	for range 10 { // a code may be that of another grant
		code = newUserCode()
		err = d.Table.Transact(ctx,
			table.Put{Item: g, If: table.IsNew()},
			table.Put{
				Item: userCode{Key: userCodeKey(hash(d.Keys.Current(ctx), code)), Grant: g.PK, ExpiresAt: expires, TTL: g.TTL},
				If:   table.Or(table.IsNew(), table.Le("expires_at", clock.ToMillis(now))),
			})
		if !errors.Is(err, table.ErrConditionFailed) {
			return deviceCode, code, err
		}
	}
	return "", "", errs.Wrap(errs.Unavailable, err, "Too many device authorizations are open, try again later")
}

func newUserCode() string {
	n, err := rand.Int(rand.Reader, big.NewInt(100_000_000))
	if err != nil {
		panic(err) // crypto/rand does not fail
	}
	return fmt.Sprintf("%0*d", userCodeDigits, n)
}

// find returns the item of a user code. Errors: table.ErrNotFound.
func (d Devices) find(ctx context.Context, code string) (found userCode, err error) {
	err = table.ErrNotFound
	d.Keys.Verify(ctx, func(key []byte) bool { // the code may have been made with the key before
		found, err = table.Load[userCode](ctx, d.Table, userCodeKey(hash(key, code)), table.Consistent)
		return !errors.Is(err, table.ErrNotFound)
	})
	return found, err
}

// hash returns the stored form of a user code.
func hash(key []byte, code string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(code))
	return hex.EncodeToString(mac.Sum(nil))
}

// Approve approves the authorization with a user code, for ctx's user and
// workspace. Errors: errs.NotFound for a wrong code; errs.TooMany if the user
// or the address has sent too many of them; errs.Gone if the authorization has
// expired or was redeemed; errs.Conflict if it was approved before.
func (d Devices) Approve(ctx context.Context, code string) error {
	// A permit is taken before the code is looked up: otherwise requests that
	// are sent at once would all be admitted.
	limits := d.wrongCodes(ctx)
	for i, l := range limits {
		exceeded, err := l.Take(ctx)
		if err != nil || exceeded != nil {
			giveBack(ctx, limits[:i])
		}
		if err != nil {
			return err
		}
		if exceeded != nil {
			return &errs.Error{Code: errs.TooMany, RetryAfter: exceeded.After, Message: fmt.Sprintf(
				"Too many wrong codes: at most %d are allowed in %d minutes", WrongCodes, int(WrongCodesPer.Minutes()))}
		}
	}
	found, err := d.find(ctx, code)
	if errors.Is(err, table.ErrNotFound) {
		return errs.New(errs.NotFound, "There is no device authorization with this code")
	}
	giveBack(ctx, limits) // it is not wrong, or nobody knows
	if err != nil {
		return err
	}
	return d.approve(ctx, found.Grant)
}

// giveBack returns permits. A failure costs the caller one attempt.
func giveBack(ctx context.Context, limits []ratelimit.Recent) {
	for _, l := range limits {
		_ = l.Return(ctx)
	}
}

// wrongCodes returns the limits of wrong codes of the user and of the address.
func (d Devices) wrongCodes(ctx context.Context) []ratelimit.Recent {
	keys := []table.Key{{PK: userKey(tenant.From(ctx).Email).PK + "#quota", SK: "wrong-codes"}}
	if ip := tenant.RequestFrom(ctx).IP; ip != "" {
		keys = append(keys, table.Key{PK: "address#" + network(ip) + "#quota", SK: "wrong-codes"})
	}
	out := make([]ratelimit.Recent, len(keys))
	for i, key := range keys {
		out[i] = ratelimit.Recent{Table: d.Table, Clock: d.Clock, Key: key, Limit: WrongCodes, Per: WrongCodesPer}
	}
	return out
}

// network returns what an address is limited by: itself, or for IPv6 its /64,
// which one client has for itself.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	p, err := a.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return p.Masked().String()
}

func (d Devices) approve(ctx context.Context, pk string) error {
	p, now := tenant.From(ctx), d.Clock.Now()
	key := table.Key{PK: pk, SK: grantKey("").SK}
	g, err := table.Load[grant](ctx, d.Table, key, table.Consistent)
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return err
	}
	if err := g.approvable(now); err != nil {
		return err
	}
	u, err := loadUser(ctx, d.Table, p.Email)
	if err != nil {
		return err
	}
	writes := []table.Write{table.Update{
		Key: key, If: table.Eq("status", pending), //guard:identity/approve-once drop field If
		Do: []table.Action{
			table.Set("status", approved), table.Set("email", p.Email), table.Set("org_id", p.OrgID), table.Set("org_name", p.OrgName),
			table.Set("logouts", u.Logouts),
		},
	}}
	if p.OrgID != "" {
		writes = append(writes, audit.Entry(ctx, now, audit.Change{
			Action: "approve_device", ResourceType: "session", ResourceID: g.GrantID, After: map[string]any{"status": approved},
		}))
	}
	err = d.Table.Transact(ctx, writes...)
	if errors.Is(err, table.ErrConditionFailed) {
		return errApproved()
	}
	return err
}

func errApproved() error {
	return errs.New(errs.Conflict, "The device authorization was approved already")
}

// approvable returns why a grant cannot be approved, if so. The zero grant is
// one that is no longer stored.
func (g grant) approvable(now time.Time) error {
	switch {
	case !now.Before(g.ExpiresAt.Time()), g.Status == consumed:
		return errGone()
	case g.Status == approved:
		return errApproved()
	}
	return nil
}

// Redemption is the result of redeeming a device code: a token, or a reason to
// ask again.
type Redemption struct {
	Token   string // "" unless approved
	Session Session
	OrgName string
	Raced   bool // another request redeemed or changed the authorization at the same moment
}

// Redeem exchanges the device code of an approved authorization for an access
// token, once. Errors: errs.Gone for an authorization that is unknown, has
// expired or was redeemed, or whose user has logged out since the approval.
func (d Devices) Redeem(ctx context.Context, deviceCode string) (Redemption, error) {
	g, err := table.Load[grant](ctx, d.Table, grantKey(hashSecret(deviceCode)), table.Consistent)
	if errors.Is(err, table.ErrNotFound) {
		return Redemption{}, errGone()
	}
	if err != nil {
		return Redemption{}, err
	}
	now := d.Clock.Now()
	switch {
	case !now.Before(g.ExpiresAt.Time()), g.Status == consumed:
		return Redemption{}, errGone()
	case g.Status == pending:
		return Redemption{}, nil
	}
	u, err := loadUser(ctx, d.Table, g.Email)
	if err != nil {
		return Redemption{}, err
	}
	if u.Logouts != g.Logouts {
		return Redemption{}, errGone()
	}
	made, token := newSession(now, u, g.OrgID)
	ctx = tenant.With(ctx, tenant.Principal{OrgID: g.OrgID, Email: g.Email}) // whose login is audited
	err = d.Table.Transact(ctx, append([]table.Write{table.Update{
		Key: g.Key, Do: []table.Action{table.Set("status", consumed)},
		If: table.Eq("status", approved), //guard:identity/redeem-once drop field If
	}}, made.writes(ctx, g.OrgID, now, map[string]any{"device": g.GrantID})...)...)
	switch {
	case errors.Is(err, table.ErrConditionFailed), errors.Is(err, table.ErrConflict):
		return Redemption{Raced: true}, nil
	case err != nil:
		return Redemption{}, err
	}
	return Redemption{Token: token, Session: made, OrgName: g.OrgName}, nil
}
