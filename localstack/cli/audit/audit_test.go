package audit

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
)

// run runs an audit command against a server that answers each path with query
// as told.
func run(t *testing.T, answers map[string]string, args ...string) (out string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.URL.String()]
		if !assert.True(t, found, "asked for %s", r.URL) {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	s := &session.Session{}
	c := s.Commands(Commands(s)...)[0]
	var printed bytes.Buffer
	c.SetOut(&printed)
	c.SetErr(&printed)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append(args, "--url", server.URL, "--api-key", "svc_x"))
	err = c.ExecuteContext(t.Context())
	return printed.String(), err
}

func TestVerifyGoesOnAndSumsUp(t *testing.T) {
	t.Parallel()
	const first = `{"status":"intact","first_day":"2026-03-01","last_day":"2026-03-02","last_digest":"aa","days":2,"entries":10,"fault":null,"next_date":"2026-03-03"}`
	for name, c := range map[string]struct {
		second, out, err string
	}{
		"intact": {
			`{"status":"intact","first_day":"2026-03-03","last_day":"2026-03-04","last_digest":"bb","days":2,"entries":5,"fault":null,"next_date":null}`,
			"4 days with 15 entries are as they were, 2026-03-01 to 2026-03-04\n2026-03-04 sha256:bb\n", "",
		},
		"broken at once": {
			`{"status":"broken","first_day":"2026-03-03","last_day":null,"last_digest":null,"days":0,"entries":0,"fault":{"day":"2026-03-03","reason":"2 entries are stored, 3 were digested"},"next_date":null}`,
			"2 days with 10 entries are as they were, 2026-03-01 to 2026-03-02\n2026-03-02 sha256:aa\n",
			"the audit log was tampered with: 2026-03-03: 2 entries are stored, 3 were digested",
		},
		"nothing more": {
			`{"status":"intact","first_day":"2026-03-03","last_day":null,"last_digest":null,"days":0,"entries":0,"fault":null,"next_date":null}`,
			"2 days with 10 entries are as they were, 2026-03-01 to 2026-03-02\n2026-03-02 sha256:aa\n", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, map[string]string{
				"/audit-logs/verification?end_date=2026-03-31": first, "/audit-logs/verification?end_date=2026-03-31&start_date=2026-03-03": c.second,
			}, "verify", "--until", "2026-03-31")
			assert.Equal(t, c.out, out)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, c.err)
			assert.Equal(t, command.Failure, command.Code(err))
		})
	}
}

func TestListFollowsPagesToItsLimit(t *testing.T) {
	t.Parallel()
	entry := func(id string) string {
		return `{"event_time":"2026-03-01T10:00:00.000Z#` + id + `","resource_type":"secret","resource_id":"` + id + `","action":"create","actor_email":null,"key_id":null}`
	}
	out, err := run(t, map[string]string{
		"/audit-logs?actor_email=a%40b.test&limit=3":              `{"items":[` + entry("1") + `,` + entry("2") + `],"next_token":"n"}`,
		"/audit-logs?actor_email=a%40b.test&limit=1&next_token=n": `{"items":[` + entry("3") + `],"next_token":"m"}`,
	}, "list", "--actor", "a@b.test", "--limit", "3")
	require.NoError(t, err)
	assert.Equal(t, "TIME                  ACTION  TYPE    RESOURCE  BY\n"+
		"2026-03-01T10:00:00Z  create  secret  1         the service\n"+
		"2026-03-01T10:00:00Z  create  secret  2         the service\n"+
		"2026-03-01T10:00:00Z  create  secret  3         the service\n", out)
	for _, args := range [][]string{{"list", "--limit", "0"}, {"list", "--id", "x"}, {"list", "--type", "a", "--id", "x", "--since", "1h"}, {"list", "--since", "soon"}, {"verify", "--until", "2026-3-1"}} {
		_, err := run(t, nil, args...)
		assert.Equal(t, command.WrongUsage, command.Code(err), "%v: %v", args, err)
	}
}
