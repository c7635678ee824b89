package audit_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/audit"
	"millrace/functions/auth"
	"millrace/functions/environments"
	"millrace/functions/orgs"
	"millrace/functions/secrets"
	"millrace/localstack/proof/localtest"
	"millrace/shared/account/tenant"
)

type object = map[string]any

// open returns a service whose clock is at noon, so that no test crosses
// midnight.
func open(t *testing.T) *localtest.Env {
	t.Helper()
	env := localtest.New(t, audit.Spec, auth.Spec, environments.Spec, orgs.Spec, secrets.Spec)
	env.Clock.Set(time.Now().UTC().AddDate(0, 0, 1).Truncate(24 * time.Hour).Add(12 * time.Hour))
	return env
}

// what lists the entries of a page as "type action id".
func what(t *testing.T, res *localtest.Response) []string {
	t.Helper()
	out := []string{}
	for i := range res.Items(t) {
		out = append(out, res.String(t, "items", i, "resource_type")+" "+res.String(t, "items", i, "action")+" "+res.String(t, "items", i, "resource_id"))
	}
	return out
}

func TestAccess(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, audit.Spec)
	env.CheckAccess(t, "audit-list", "/audit-logs", nil)
	env.CheckAccess(t, "audit-resource", "/audit-logs/resource/secret/A", nil)
	env.CheckAccess(t, "audit-verify", "/audit-logs/verification", nil)
}

func TestEntryTellsWhoDidWhatFromWhere(t *testing.T) {
	t.Parallel()
	env := open(t)
	token := env.SignIn(t, env.A.Owner)
	env.Do(t, token, "POST", "/secrets", object{"name": "PASSWORD", "value": "correct horse"}).Require(t, 201)
	env.Clock.Advance(time.Second)
	changed := env.Send(t, localtest.Request{Credential: env.A.Key, Method: "PUT", Path: "/secrets/PASSWORD", Body: object{"value": "battery staple"}}).Require(t, 200)

	list := env.Do(t, token, "GET", "/audit-logs?resource_type=secret", nil).Require(t, 200)
	assert.NotContains(t, string(list.Body), "horse")
	assert.NotContains(t, string(list.Body), "staple")
	require.Equal(t, []string{"secret update PASSWORD", "secret create PASSWORD"}, what(t, list), "the newest first")
	entry := list.Get(t, "items", 0).(object)
	at, suffix, found := strings.Cut(entry["event_time"].(string), "#")
	assert.True(t, found && suffix != "")
	when, err := time.Parse("2006-01-02T15:04:05.000Z", at)
	require.NoError(t, err)
	assert.WithinDuration(t, env.Clock.Now(), when, time.Minute)
	assert.Equal(t, env.A.OrgID, entry["org_id"])
	assert.Equal(t, env.A.Owner, entry["actor_email"])
	assert.Equal(t, "192.0.2.1", entry["ip_address"])
	assert.Equal(t, changed.Header.Get("X-Request-Id"), entry["request_id"])
	assert.NotEmpty(t, entry["key_id"])
	assert.Equal(t, "1", fmt.Sprint(entry["before_json"].(object)["version"]))
	assert.Equal(t, "2", fmt.Sprint(entry["after_json"].(object)["version"]))
	assert.Nil(t, entry["metadata"])
	first := list.Get(t, "items", 1).(object)
	assert.Nil(t, first["key_id"])
	assert.Nil(t, first["before_json"])

	assert.Empty(t, env.Do(t, env.B.Key, "GET", "/audit-logs?resource_type=secret", nil).Require(t, 200).Items(t))
	assert.Empty(t, env.Do(t, env.B.Key, "GET", "/audit-logs/resource/secret/PASSWORD", nil).Require(t, 200).Items(t))
}

func TestFiltersCombine(t *testing.T) {
	t.Parallel()
	env := open(t)
	admin := env.User(t, env.A, tenant.Admin)
	start := env.Clock.Now()
	for i, who := range []string{env.A.Key, admin, env.A.Key, admin} {
		env.Clock.Advance(10 * time.Minute)
		env.Do(t, who, "POST", "/secrets", object{"name": fmt.Sprint("S", i), "value": "v"}).Require(t, 201)
	}
	env.Clock.Advance(10 * time.Minute)
	env.Do(t, admin, "DELETE", "/secrets/S0", nil).Require(t, 200)
	at := func(n int) string { // after the nth change
		return url.QueryEscape(start.Add(time.Duration(10*n+5) * time.Minute).Format(time.RFC3339))
	}
	for query, want := range map[string][]string{
		"resource_type=secret":                                                                 {"secret delete S0", "secret create S3", "secret create S2", "secret create S1", "secret create S0"},
		"resource_type=secret&action=create&limit=2":                                           {"secret create S3", "secret create S2"},
		"resource_type=secret&action=delete":                                                   {"secret delete S0"},
		"resource_type=secret&actor_email=" + env.A.Owner:                                      {"secret create S2", "secret create S0"},
		"resource_type=secret&actor_email=" + strings.ToUpper(env.A.Owner):                     {"secret create S2", "secret create S0"},
		"action=create&resource_type=secret&start_date=" + at(1):                               {"secret create S3", "secret create S2", "secret create S1"},
		"resource_type=secret&start_date=" + at(1) + "&end_date=" + at(3):                      {"secret create S2", "secret create S1"},
		"resource_type=secret&action=create&end_date=" + at(1) + "&actor_email=" + env.A.Owner: {"secret create S0"},
		"resource_type=flow":                                                                   {},
		"action=creat":                                                                         {},
		"actor_email=nobody%40a.test":                                                          {},
		"end_date=2020-01-01":                                                                  {},
		"resource_type=secret&start_date=2020-01-01&limit=1":                                   {"secret delete S0"},
		"resource_type=secret&action=delete&end_date=" + start.Format(time.DateOnly):           {"secret delete S0"},
	} {
		assert.Equal(t, want, what(t, env.Do(t, env.A.Key, "GET", "/audit-logs?"+query, nil).Require(t, 200)), query)
	}
	assert.Equal(t, []string{"secret delete S0", "secret create S0"}, what(t, env.Do(t, env.A.Key, "GET", "/audit-logs/resource/secret/S0", nil).Require(t, 200)))
	assert.Equal(t, []string{"secret delete S0"}, what(t, env.Do(t, env.A.Key, "GET", "/audit-logs/resource/secret/S0?limit=1", nil).Require(t, 200)))
}

func TestResourceIDMayHaveSlashes(t *testing.T) {
	t.Parallel()
	env := open(t)
	env.Do(t, env.A.Key, "POST", "/environments", object{"name": "prod"}).Require(t, 201)
	env.Do(t, env.A.Key, "POST", "/secrets", object{"name": "S", "value": "v", "environment": "prod"}).Require(t, 201)
	id := env.Do(t, env.A.Key, "GET", "/audit-logs?resource_type=secret", nil).String(t, "items", 0, "resource_id")
	assert.Len(t, env.Do(t, env.A.Key, "GET", "/audit-logs/resource/secret/"+url.PathEscape(id), nil).Require(t, 200).Items(t), 1, id)
}

func TestPagesGoOn(t *testing.T) {
	t.Parallel()
	env := open(t)
	for i := range 7 {
		env.Clock.Advance(time.Second)
		env.Do(t, env.A.Key, "POST", "/secrets", object{"name": fmt.Sprint("S", i), "value": "v"}).Require(t, 201)
	}
	var got []string
	path, token := "/audit-logs?resource_type=secret&limit=3", ""
	for range 10 {
		page := env.Do(t, env.A.Key, "GET", path+"&next_token="+token, nil).Require(t, 200)
		got = append(got, what(t, page)...)
		next, more := page.Object(t)["next_token"]
		if !more {
			break
		}
		token = next.(string)
	}
	assert.Len(t, got, 7)
	assert.Equal(t, []string{"secret create S6", "secret create S0"}, []string{got[0], got[6]})
	assert.True(t, slices.IsSortedFunc(got, func(a, b string) int { return -strings.Compare(a, b) }), "%v", got)

	page := env.Do(t, env.A.Key, "GET", path, nil).String(t, "next_token")
	for _, other := range []string{"/audit-logs?limit=3&next_token=" + page, "/audit-logs?resource_type=secret&next_token=x"} {
		env.Do(t, env.A.Key, "GET", other, nil).Require(t, 400)
	}
	env.Do(t, env.B.Key, "GET", path+"&next_token="+page, nil).Require(t, 400)
}

func TestInvalidQueriesAreRejected(t *testing.T) {
	t.Parallel()
	env := localtest.New(t, audit.Spec)
	for _, query := range []string{
		"limit=0", "limit=1001", "limit=x", "start_date=yesterday", "end_date=2026-13-01", "start_date=2026-02-02&end_date=2026-02-01",
		"start_date=2026-02-02T10:00:00Z&end_date=2026-02-02T09:59:59Z", "until=2026-01-01", "resource_id=x",
	} {
		env.Do(t, env.A.Key, http.MethodGet, "/audit-logs?"+query, nil).Require(t, 422)
	}
	for _, query := range []string{"start_date=2026-2-1", "end_date=2026-02-30", "limit=3"} {
		env.Do(t, env.A.Key, http.MethodGet, "/audit-logs/verification?"+query, nil).Require(t, 422)
	}
	env.Do(t, env.A.Key, http.MethodGet, "/audit-logs/resource/secret/A?limit=0", nil).Require(t, 422)
}
