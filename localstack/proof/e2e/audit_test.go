package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMembersAndAuditLogByTheCommandLine(t *testing.T) {
	t.Parallel()
	s := start(t, dataDir(t))
	u := &user{t: t, dir: t.TempDir(), env: []string{"MILLRACE_URL=" + s.Credentials.BaseURL, "MILLRACE_API_KEY=" + s.Credentials.APIKey}}
	assert.Contains(t, u.must("orgs", "list"), s.Credentials.OrgID)
	assert.Contains(t, u.must("orgs", "create", "Second"), "Second is org_")
	assert.Equal(t, "ann@example.com is developer\n", u.must("members", "add", "Ann@Example.com", "--role", "developer"))
	assert.Equal(t, "ann@example.com is admin\n", u.must("members", "role", "ann@example.com", "admin"))
	assert.Regexp(t, `(?m)^ann@example.com +admin `, u.must("members", "list"))
	assert.Regexp(t, `(?m)^viewer +connections.read `, u.must("members", "roles"))
	again := u.run("", "members", "add", "ann@example.com")
	assert.Equal(t, 1, again.code)
	assert.Contains(t, again.err, "already a member")
	assert.Equal(t, 6, u.run("", "members", "role", "nobody@example.com", "viewer").code)

	var entries []struct {
		Action string `json:"action"`
	}
	for line := range strings.Lines(u.must("audit", "list", "--type", "member", "--since", "1h", "--json")) {
		entries = append(entries, struct {
			Action string `json:"action"`
		}{})
		require.NoError(t, json.Unmarshal([]byte(line), &entries[len(entries)-1]), line)
	}
	require.Len(t, entries, 2)
	assert.Equal(t, "update_role", entries[0].Action)
	assert.Contains(t, u.must("audit", "list", "--type", "member", "--id", "ann@example.com", "--limit", "1"), "update_role")
	assert.Equal(t, 2, u.run("", "audit", "list", "--id", "x").code)
	assert.Contains(t, u.must("audit", "verify"), "no day is digested yet")
	assert.Equal(t, 2, u.run("", "audit", "verify", "--since", "yesterday").code)
}
