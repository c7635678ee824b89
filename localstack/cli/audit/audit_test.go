package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
	"millrace/shared/platform/signature"
)

// run runs an audit command against a server that has an answer for each path and
// query.
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

func TestVerifyFollowsPagesAndSumsThemUp(t *testing.T) {
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

func TestVerifyWithAKeyOfOnesOwn(t *testing.T) {
	t.Parallel()
	file := func(s signature.Signer) string {
		key, err := s.PublicKey(t.Context())
		require.NoError(t, err)
		path := filepath.Join(t.TempDir(), "key.pem")
		require.NoError(t, os.WriteFile(path, []byte(key.PEM()), 0o600))
		return path
	}
	signer := func() *signature.Local {
		private, err := signature.NewKey()
		require.NoError(t, err)
		s, err := signature.NewLocal(private)
		require.NoError(t, err)
		return s
	}
	service, other := signer(), signer()
	answer := func(s signature.Signer, message string) string {
		sig, err := s.Sign(t.Context(), []byte(message))
		require.NoError(t, err)
		data, err := json.Marshal(sig)
		require.NoError(t, err)
		return `{"status":"intact","first_day":"2026-03-01","last_day":"2026-03-02","last_digest":"aa","days":2,"entries":10,` +
			`"signature":` + strings.Replace(string(data), "{", `{"message":"`+message+`",`, 1) + `}`
	}
	const message, refused = "audit digest org_1 2026-03-02 aa", "the digest of 2026-03-02 is not signed with the key of --public-key"
	for name, c := range map[string]struct{ answer, file, err string }{
		"the kept key":   {answer(service, message), file(service), ""},
		"another key":    {answer(other, message), file(service), refused},
		"another day":    {answer(service, "audit digest org_1 2026-03-01 aa"), file(service), refused},
		"another digest": {answer(service, "audit digest org_1 2026-03-02 bb"), file(service), refused},
		"no signature":   {`{"status":"intact","first_day":"2026-03-01","last_day":"2026-03-02","last_digest":"aa","days":2}`, file(service), refused},
		"nothing is due": {`{"status":"intact","days":0}`, file(service), ""},
		"a file without": {"", os.DevNull, "--public-key: " + os.DevNull + ": signature: no public key in PEM"},
		"no file at all": {"", filepath.Join(t.TempDir(), "absent"), "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := run(t, map[string]string{"/audit-logs/verification?": c.answer}, "verify", "--public-key", c.file)
			if c.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.err)
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
