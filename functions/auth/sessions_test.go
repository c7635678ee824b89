package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/auth"
	"millrace/functions/orgs"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/audit"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
	"millrace/shared/platform/table"
)

// login exchanges a sign-in token for an access token.
func login(t *testing.T, env *localtest.Env, email string) string {
	t.Helper()
	return env.Do(t, env.SignIn(t, email), "POST", "/auth/login", object{"email": email}).Require(t, 200).String(t, "access_token")
}

// actions returns the actions of a workspace's sessions in its audit log.
func actions(t *testing.T, env *localtest.Env, org string) (out []string) {
	t.Helper()
	for _, r := range env.Audit(t, org) {
		if r.ResourceType == "session" {
			out = append(out, r.Action)
		}
	}
	return out
}

func TestLoginGivesAnAccessTokenOfADay(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	now := env.Clock.Now()
	made := env.Do(t, env.SignIn(t, env.A.Owner), "POST", "/auth/login", object{"email": "OWNER@a.test"}).Require(t, 200).Object(t)
	assert.ElementsMatch(t, []string{"access_token", "token_type", "expires_at"}, keysOf(made))
	token := made["access_token"].(string)
	assert.True(t, strings.HasPrefix(token, identity.TokenPrefix))
	assert.Equal(t, "Bearer", made["token_type"])
	expires, err := time.Parse("2006-01-02T15:04:05.000Z", made["expires_at"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, now.Add(24*time.Hour), expires, time.Minute)
	assert.Equal(t, object{"user_email": env.A.Owner, "org_id": env.A.OrgID, "role": "owner"},
		env.Do(t, token, "GET", "/me", nil).Require(t, 200).Object(t))

	again := env.Do(t, token, "POST", "/auth/login", object{"email": env.A.Owner}).Require(t, 200)
	assert.Equal(t, made, again.Object(t), "there is no refresh")

	entries := env.Audit(t, env.A.OrgID)
	last := entries[len(entries)-1]
	assert.Equal(t, []string{"login"}, actions(t, env, env.A.OrgID))
	assert.Equal(t, env.A.Owner, last.ActorEmail)
	assert.NotContains(t, fmt.Sprint(last), token)

	env.Clock.Set(expires.Add(-time.Minute))
	env.Do(t, token, "GET", "/me", nil).Require(t, 200)
	env.Clock.Set(expires.Add(time.Second))
	env.Do(t, token, "GET", "/me", nil).Require(t, 401)
	env.Do(t, token, "POST", "/auth/login", object{"email": env.A.Owner}).Require(t, 401)
}

func TestLoginRefusals(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	owner := env.SignIn(t, env.A.Owner)
	for name, c := range map[string]struct {
		credential string
		body       any
		want       int
	}{
		"no credential":     {"", object{"email": env.A.Owner}, 401},
		"forged":            {owner[:len(owner)-4] + "AAAA", object{"email": env.A.Owner}, 401},
		"unknown token":     {"mat_" + strings.Repeat("0", 49), object{"email": env.A.Owner}, 401},
		"API key":           {env.A.Key, object{"email": env.A.Owner}, 403},
		"another's email":   {owner, object{"email": env.B.Owner}, 403},
		"no body":           {owner, nil, 422},
		"no email":          {owner, object{}, 422},
		"null":              {owner, object{"email": nil}, 422},
		"empty":             {owner, object{"email": ""}, 422},
		"no address":        {owner, object{"email": "owner"}, 422},
		"unknown field":     {owner, object{"email": env.A.Owner, "role": "owner"}, 422},
		"a look-alike":      {owner, object{"email": "owner@\u212a.test"}, 422},
		"another's, forged": {"x.y.z", object{"email": env.B.Owner}, 401},
	} {
		res := env.Do(t, c.credential, "POST", "/auth/login", c.body)
		assert.Equal(t, c.want, res.Code, "%s: %s", name, res.Body)
	}
	assert.Empty(t, actions(t, env, env.A.OrgID))
}

func TestUserWithoutWorkspaceMaySignIn(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec, orgs.Spec)
	token := login(t, env, "new@example.com")
	assert.Empty(t, env.Do(t, token, "GET", "/me", nil).Require(t, 200).String(t, "org_id"))
	made := env.Do(t, token, "POST", "/orgs", object{"name": "Mine"}).Require(t, 200).String(t, "org_id")
	assert.Equal(t, made, env.Do(t, token, "GET", "/me", nil).Require(t, 200).String(t, "org_id"))
	env.Do(t, token, "POST", "/auth/logout", nil).Require(t, 200)
	env.Do(t, token, "GET", "/me", nil).Require(t, 401)
	nobody := login(t, env, "nobody@example.com")
	env.Do(t, nobody, "POST", "/auth/logout", nil).Require(t, 200)
	env.Do(t, nobody, "GET", "/me", nil).Require(t, 401)
}

func TestLogoutRevokesTheUsersAccessTokensOnly(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	one, two, other := login(t, env, env.A.Owner), login(t, env, env.A.Owner), login(t, env, env.B.Owner)
	assert.NotEqual(t, one, two)
	assert.Equal(t, object{"status": "logged_out"}, env.Do(t, one, "POST", "/auth/logout", nil).Require(t, 200).Object(t))
	for _, token := range []string{one, two} {
		env.Do(t, token, "GET", "/me", nil).Require(t, 401)
		env.Do(t, token, "POST", "/auth/logout", nil).Require(t, 401)
	}
	for _, still := range []string{other, env.A.Key, env.SignIn(t, env.A.Owner)} {
		env.Do(t, still, "GET", "/me", nil).Require(t, 200)
	}
	env.Do(t, env.A.Key, "POST", "/auth/logout", nil).Require(t, 403)
	assert.Equal(t, []string{"login", "login", "logout"}, sorted(actions(t, env, env.A.OrgID)))
	env.Do(t, login(t, env, env.A.Owner), "GET", "/me", nil).Require(t, 200)
}

// sorted puts logouts last: the order within a millisecond is random.
func sorted(all []string) (out []string) {
	for _, a := range all {
		if a == "login" {
			out = append(out, a)
		}
	}
	for _, a := range all {
		if a != "login" {
			out = append(out, a)
		}
	}
	return out
}

func TestSuspendedMemberCannotLogIn(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	viewer, email := env.User(t, env.A, tenant.Viewer), localtest.UserEmail(env.A, tenant.Viewer)
	token := login(t, env, email)
	require.NoError(t, identity.SuspendMember(t.Context(), env.Deps.Table, env.Clock.Now(), env.A.OrgID, email, true))
	env.Do(t, token, "GET", "/me", nil).Require(t, 403)
	env.Do(t, viewer, "POST", "/auth/login", object{"email": email}).Require(t, 403)
}

func TestNoCredentialIsStoredInPlain(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var stored strings.Builder
	env := localtest.Open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		return spy{inner, func(v any) {
			mu.Lock()
			defer mu.Unlock()
			fmt.Fprintf(&stored, "%+v\n", v)
		}}
	}}, auth.Spec)
	token := login(t, env, env.A.Owner)
	device, user := start(t, env)
	approve(t, env, token, user).Require(t, 200)
	redeemed := redeem(t, env, device).Require(t, 200).String(t, "access_token")
	for _, secret := range []string{token, device, user, redeemed} {
		assert.NotContains(t, stored.String(), secret)
	}
}

// start starts a device authorization.
func start(t *testing.T, env *localtest.Env) (device, user string) {
	t.Helper()
	res := env.Do(t, "", "POST", "/auth/device/start", object{}).Require(t, 200)
	return res.String(t, "device_code"), res.String(t, "user_code")
}

func approve(t *testing.T, env *localtest.Env, credential, user string) *localtest.Response {
	t.Helper()
	return env.Do(t, credential, "POST", "/auth/device/approve", object{"user_code": user})
}

func redeem(t *testing.T, env *localtest.Env, device string) *localtest.Response {
	t.Helper()
	return env.Do(t, "", "POST", "/auth/device/token", object{"device_code": device})
}

func TestDeviceAuthorization(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	env.Clock.Advance(time.Second)
	second := env.Workspace(t, "Second", env.A.Owner)
	begun := env.Do(t, "", "POST", "/auth/device/start", object{}).Require(t, 200).Object(t)
	assert.ElementsMatch(t, []string{"device_code", "user_code", "interval", "expires_in"}, keysOf(begun))
	assert.Regexp(t, "^[0-9]{8}$", begun["user_code"])
	assert.Len(t, begun["device_code"], 43)
	assert.Equal(t, json.Number("2"), begun["interval"])
	device, user := begun["device_code"].(string), begun["user_code"].(string)

	waiting := redeem(t, env, device).Require(t, 202)
	assert.Equal(t, object{"status": "authorization_pending", "interval": json.Number("2")}, waiting.Object(t))
	approved := env.Send(t, localtest.Request{
		Credential: env.SignIn(t, env.A.Owner), OrgID: second.OrgID, Method: "POST", Path: "/auth/device/approve", Body: object{"user_code": user},
	}).Require(t, 200)
	assert.Equal(t, object{"status": "approved", "user_email": env.A.Owner, "org_id": second.OrgID, "workspace_name": "Second"}, approved.Object(t))
	approve(t, env, env.SignIn(t, env.B.Owner), user).Require(t, 409)
	approve(t, env, env.SignIn(t, env.A.Owner), user).Require(t, 409)

	now := env.Clock.Now()
	made := redeem(t, env, device).Require(t, 200).Object(t)
	assert.ElementsMatch(t, []string{"access_token", "expires_at", "user_email", "org_id", "workspace_name"}, keysOf(made))
	assert.Equal(t, env.A.Owner, made["user_email"])
	assert.Equal(t, second.OrgID, made["org_id"])
	assert.Equal(t, "Second", made["workspace_name"])
	expires, err := time.Parse("2006-01-02T15:04:05.000Z", made["expires_at"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, now.Add(24*time.Hour), expires, time.Minute)
	redeem(t, env, device).Require(t, 410)
	approve(t, env, env.SignIn(t, env.A.Owner), user).Require(t, 410)

	token := made["access_token"].(string)
	me := func(org string) string {
		return env.Send(t, localtest.Request{Credential: token, OrgID: org, Method: "GET", Path: "/me"}).Require(t, 200).String(t, "org_id")
	}
	assert.Equal(t, second.OrgID, me(""), "the workspace of the approval, not the one joined first")
	assert.Equal(t, env.A.OrgID, me(env.A.OrgID))
	assert.Equal(t, []string{"login", "approve_device"}, sorted(actions(t, env, second.OrgID)))
	var last audit.Record
	for _, r := range env.Audit(t, second.OrgID) {
		if r.Action == "login" {
			last = r
		}
	}
	assert.Equal(t, env.A.Owner, last.ActorEmail)
	env.Do(t, token, "POST", "/auth/logout", nil).Require(t, 200)
	env.Do(t, token, "GET", "/me", nil).Require(t, 401)
}

func TestDeviceBodiesAreChecked(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	env.Do(t, "", "POST", "/auth/device/start", nil).Require(t, 200)
	env.Do(t, "", "POST", "/auth/device/start", object{"client": "x"}).Require(t, 422)
	owner := env.SignIn(t, env.A.Owner)
	for range 3 { // none of them counts as a wrong code
		for _, code := range []any{nil, "", "1234567", "123456789", "1234567x", " 12345678", "１２３４５６７８", 12345678} {
			env.Do(t, owner, "POST", "/auth/device/approve", object{"user_code": code}).Require(t, 422)
		}
	}
	_, user := start(t, env)
	approve(t, env, "", user).Require(t, 401)
	approve(t, env, env.A.Key, user).Require(t, 403)
	env.Send(t, localtest.Request{
		Credential: owner, OrgID: env.B.OrgID, Method: "POST", Path: "/auth/device/approve", Body: object{"user_code": user},
	}).Require(t, 403)
	for _, code := range []any{nil, "", 7, strings.Repeat("x", 257)} {
		env.Do(t, "", "POST", "/auth/device/token", object{"device_code": code}).Require(t, 422)
	}
	redeem(t, env, "unknown").Require(t, 410)
	approve(t, env, owner, user).Require(t, 200)
}

func TestDeviceAuthorizationExpires(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	waits, user := start(t, env)
	done, code := start(t, env)
	owner := env.SignIn(t, env.A.Owner)
	approve(t, env, owner, code).Require(t, 200)
	env.Clock.Advance(identity.GrantLifetime + time.Second)
	redeem(t, env, waits).Require(t, 410)
	redeem(t, env, done).Require(t, 410)
	approve(t, env, owner, user).Require(t, 410)
	assert.NotContains(t, actions(t, env, env.A.OrgID), "login")
}

func TestLogoutVoidsApprovedAuthorizations(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	device, user := start(t, env)
	owner := env.SignIn(t, env.A.Owner)
	approve(t, env, owner, user).Require(t, 200)
	env.Do(t, owner, "POST", "/auth/logout", nil).Require(t, 200)
	redeem(t, env, device).Require(t, 410)
}

func TestSessionOfARemovedMembershipChangesNothingElsewhere(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	env.Clock.Advance(time.Second)
	second := env.Workspace(t, "Second", env.A.Owner)
	device, user := start(t, env)
	env.Send(t, localtest.Request{
		Credential: env.SignIn(t, env.A.Owner), OrgID: second.OrgID, Method: "POST", Path: "/auth/device/approve", Body: object{"user_code": user},
	}).Require(t, 200)
	token := redeem(t, env, device).Require(t, 200).String(t, "access_token")
	require.NoError(t, env.Deps.Table.Delete(t.Context(), table.Delete{Key: table.Key{PK: "user#" + env.A.Owner, SK: "org#" + second.OrgID}}))
	assert.Equal(t, env.A.OrgID, env.Do(t, token, "GET", "/me", nil).Require(t, 200).String(t, "org_id"), "reads fall back")
	env.Do(t, token, "POST", "/api-keys", object{"name": "k"}).Require(t, 403)
}

func TestConcurrentRedemptionsGiveOneToken(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	owner := env.SignIn(t, env.A.Owner)
	for range 5 {
		device, user := start(t, env)
		approve(t, env, owner, user).Require(t, 200)
		var tokens, raced, gone atomic.Int64
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				switch res := redeem(t, env, device); res.Code {
				case 200:
					tokens.Add(1)
				case 202:
					assert.Equal(t, object{"status": "slow_down", "interval": json.Number("3")}, res.Object(t))
					raced.Add(1)
				case 410:
					gone.Add(1)
				default:
					assert.Fail(t, "unexpected answer", "%d %s", res.Code, res.Body)
				}
			})
		}
		all.Wait()
		assert.EqualValues(t, 1, tokens.Load())
		assert.EqualValues(t, 49, raced.Load()+gone.Load())
		redeem(t, env, device).Require(t, 410)
	}
}

// racing returns an Env in which *before is called once, before a transaction.
func racing(t *testing.T) (env *localtest.Env, before *func()) {
	t.Helper()
	before = new(func())
	env = localtest.Open(t, localtest.Options{Wrap: func(inner table.Table) table.Table {
		return spy{inner, func(any) {
			if f := *before; f != nil {
				*before = nil
				f()
			}
		}}
	}}, auth.Spec)
	return env, before
}

func TestRacingRedemptionIsSlowedDown(t *testing.T) {
	t.Parallel()
	env, before := racing(t)
	device, user := start(t, env)
	approve(t, env, env.SignIn(t, env.A.Owner), user).Require(t, 200)
	*before = func() { redeem(t, env, device).Require(t, 200) }
	assert.Equal(t, object{"status": "slow_down", "interval": json.Number("3")}, redeem(t, env, device).Require(t, 202).Object(t))
	redeem(t, env, device).Require(t, 410)
}

func TestRacingApprovalIsRefused(t *testing.T) {
	t.Parallel()
	env, before := racing(t)
	device, user := start(t, env)
	*before = func() { approve(t, env, env.SignIn(t, env.B.Owner), user).Require(t, 200) }
	approve(t, env, env.SignIn(t, env.A.Owner), user).Require(t, 409)
	assert.Equal(t, env.B.Owner, redeem(t, env, device).Require(t, 200).String(t, "user_email"))
}

func TestConcurrentApprovalsBindOneUser(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	device, user := start(t, env)
	users := []string{env.SignIn(t, env.A.Owner), env.SignIn(t, env.B.Owner)}
	emails := []string{env.A.Owner, env.B.Owner}
	codes := make([]int, 8)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() { codes[i] = approve(t, env, users[i%2], user).Code })
	}
	all.Wait()
	winner := -1
	for i, code := range codes {
		if code == 200 {
			require.Equal(t, -1, winner, "two approvals")
			winner = i
			continue
		}
		assert.Equal(t, 409, code)
	}
	require.NotEqual(t, -1, winner)
	assert.Equal(t, emails[winner%2], redeem(t, env, device).Require(t, 200).String(t, "user_email"))
}

// wrong returns a code other than the given ones.
func wrong(codes ...string) string {
	for i := 0; ; i++ {
		code := fmt.Sprintf("%08d", i)
		taken := false
		for _, c := range codes {
			taken = taken || c == code
		}
		if !taken {
			return code
		}
	}
}

func TestEleventhWrongCodeIsRefused(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	_, user := start(t, env)
	_, more := start(t, env)
	owner := env.SignIn(t, env.A.Owner)
	for range 5 { // a code that is not wrong does not count
		code := user
		approve(t, env, owner, code)
	}
	for range identity.WrongCodes {
		approve(t, env, owner, wrong(user, more)).Require(t, 404)
	}
	for _, code := range []string{wrong(user, more), more} {
		res := approve(t, env, owner, code).Require(t, 429)
		assert.NotEmpty(t, res.Header.Get("Retry-After"), "a right code is not told from a wrong one")
	}
	// Another user of the same address, which the wrong codes came from.
	approve(t, env, env.SignIn(t, env.B.Owner), more).Require(t, 429)
	env.Clock.Advance(identity.WrongCodesPer + time.Second)
	approve(t, env, owner, wrong(user, more)).Require(t, 404)
}

// TestManyWrongCodesGetNoToken sends 10,000 wrong codes, from as many processes
// as there are goroutines: the limit is in the table alone.
func TestManyWrongCodesGetNoToken(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, auth.Spec)
	device, user := start(t, env)
	tokens := []string{env.SignIn(t, env.A.Owner), env.SignIn(t, env.B.Owner)}
	var found, limited, others atomic.Int64
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 1250 {
				code := fmt.Sprintf("%08d", g*1250+i)
				if code == user {
					continue
				}
				switch approve(t, env, tokens[g%2], code).Code {
				case 404:
					found.Add(1)
				case 429:
					limited.Add(1)
				default:
					others.Add(1)
				}
			}
		})
	}
	all.Wait()
	assert.EqualValues(t, identity.WrongCodes, found.Load(), "both users are at one address")
	assert.GreaterOrEqual(t, limited.Load(), int64(9989))
	assert.Zero(t, others.Load())
	redeem(t, env, device).Require(t, 202)
	for i := range 200 {
		redeem(t, env, fmt.Sprintf("guess-%d", i)).Require(t, 410)
	}
}

func TestDeviceStartsOfAnAddressAreLimited(t *testing.T) {
	t.Parallel()
	env := localtest.Open(t, localtest.Options{Limits: []string{"device-grants-per-minute=3"}}, auth.Spec)
	env.Clock.Set(env.Clock.Now().Truncate(time.Minute))
	for range 3 {
		start(t, env)
	}
	res := env.Do(t, "", "POST", "/auth/device/start", object{}).Require(t, 429)
	assert.Contains(t, res.String(t, "detail"), "device-grants-per-minute")
}

// spy shows transactions before they are made.
type spy struct {
	table.Table
	see func(any)
}

func (s spy) Transact(ctx context.Context, writes ...table.Write) error {
	s.see(writes)
	return s.Table.Transact(ctx, writes...)
}
