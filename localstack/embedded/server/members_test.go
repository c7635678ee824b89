package server

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/embedded/signin"
	"millrace/shared/account/audit"
	"millrace/shared/account/identity"
	"millrace/shared/account/tenant"
)

// TestOperatorSuspendsMember checks that the member's sessions and API keys are
// rejected from the next request on. A process can run one server at a time, so
// the test is not parallel.
func TestOperatorSuspendsMember(t *testing.T) {
	s, err := Open(t.Context(), Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", NoTick: true, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-done)
	})
	c := s.Credentials()
	send := func(bearer, method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, c.BaseURL+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+bearer)
		req.Header.Set("X-Org-Id", c.OrgID)
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(answer)
	}
	const email = "dev@example.com"
	as := tenant.With(t.Context(), tenant.Principal{OrgID: c.OrgID, Email: c.Email, Role: tenant.Owner})
	_, err = identity.AddMember(as, s.deps.Table, s.deps.Clock.Now(), c.OrgID, email, tenant.Owner)
	require.NoError(t, err)
	as = tenant.With(t.Context(), tenant.Principal{OrgID: c.OrgID, Email: email, Role: tenant.Owner})
	_, key, err := identity.NewKeys(s.deps.Records()).Create(as, identity.KeyRequest{Name: "k"})
	require.NoError(t, err)
	status, answer := send(c.LocalSecret, "POST", signin.SignInPath, `{"email":"`+email+`"}`)
	require.Equal(t, 200, status, answer)
	var session struct {
		IDToken string `json:"id_token"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &session))

	member := func(suspended string) string {
		return `{"org_id":"` + c.OrgID + `","email":"Dev@Example.com","suspended":` + suspended + `}`
	}
	for name, try := range map[string]struct {
		bearer, body string
		want         int
	}{
		"no secret":       {"", member("true"), 401},
		"an owner's key":  {c.APIKey, member("true"), 401},
		"no JSON":         {c.LocalSecret, "{", 422},
		"a field missing": {c.LocalSecret, `{"org_id":"` + c.OrgID + `","email":"` + email + `"}`, 422},
		"an unknown one":  {c.LocalSecret, strings.Replace(member("true"), "{", `{"a":1,`, 1), 422},
		"no email":        {c.LocalSecret, strings.Replace(member("true"), "@", "", 1), 422},
		"nobody":          {c.LocalSecret, strings.Replace(member("true"), "Dev", "No", 1), 404},
		"no workspace":    {c.LocalSecret, strings.Replace(member("true"), c.OrgID, "org_none", 1), 404},
	} {
		status, answer := send(try.bearer, "POST", MembersPath, try.body)
		assert.Equal(t, try.want, status, "%s: %s", name, answer)
	}
	access := func(want int) {
		t.Helper()
		for _, bearer := range []string{key, session.IDToken} {
			status, answer := send(bearer, "GET", "/runs", "")
			assert.Equal(t, want, status, answer)
		}
		status, answer := send(c.APIKey, "GET", "/runs", "")
		assert.Equal(t, 200, status, answer)
	}
	access(200)
	for _, suspended := range []string{"true", "true", "false"} {
		status, answer := send(c.LocalSecret, "POST", MembersPath, member(suspended))
		require.Equal(t, 200, status, answer)
		assert.JSONEq(t, strings.ToLower(member(suspended)), strings.ToLower(answer))
		access(map[string]int{"true": 403, "false": 200}[suspended])
	}
	var audited []string
	for r, err := range audit.Entries(t.Context(), s.deps.Table, c.OrgID, time.Time{}, time.Time{}) {
		require.NoError(t, err)
		if r.ResourceType == "member" && r.ActorEmail == operator {
			audited = append(audited, r.Action)
		}
	}
	assert.ElementsMatch(t, []string{"suspend", "restore"}, audited)
}
