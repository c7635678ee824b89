package exceptions

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/command"
	"millrace/localstack/cli/session"
)

// run runs a command against a server that has an answer for each request.
func run(t *testing.T, answers map[string]string, args ...string) (out string, err error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.Method+" "+r.URL.String()]
		if !assert.True(t, found, "asked for %s %s", r.Method, r.URL) {
			w.WriteHeader(http.StatusTeapot)
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	s := &session.Session{}
	c := s.Commands(Commands(s)...)[0]
	var printed bytes.Buffer
	c.SetOut(&printed)
	c.SetErr(&bytes.Buffer{})
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(append(args, "--url", server.URL, "--api-key", "svc_x"))
	err = c.ExecuteContext(t.Context())
	return printed.String(), err
}

func TestList(t *testing.T) {
	t.Parallel()
	entry := func(key string) string {
		return `{"key":"` + key + `","timestamp":"2026-03-01T10:00:00.000Z","request_id":"r1","exception_type":"panic","http_method":"GET","http_path":"/runs","org_id":"org_1"}`
	}
	out, err := run(t, map[string]string{
		"GET /admin/exceptions?limit=2":              `{"items":[` + entry("k1") + `],"next_token":"n"}`,
		"GET /admin/exceptions?limit=1&next_token=n": `{"items":[` + entry("k2") + `],"next_token":"m"}`,
	}, "list", "--limit", "2")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 3)
	assert.Regexp(t, `^2026-03-01T10:00:00Z +GET /runs +panic +org_1 +r1 +k1$`, lines[1])
	assert.Regexp(t, ` k2$`, lines[2])
}

func TestGetAndDelete(t *testing.T) {
	t.Parallel()
	out, err := run(t, map[string]string{"GET /admin/exceptions/content?key=a%2Fb": `{"stack":"x"}`}, "get", "a/b")
	require.NoError(t, err)
	assert.JSONEq(t, `{"stack":"x"}`, out)
	out, err = run(t, map[string]string{"GET /admin/exceptions/download?key=a": `{"url":"http://x/y?z=1"}`}, "get", "a", "--link")
	require.NoError(t, err)
	assert.Equal(t, "http://x/y?z=1\n", out)
	out, err = run(t, map[string]string{"DELETE /admin/exceptions": `{"status":"deleted","keys":["a","b"]}`}, "delete", "a", "b")
	require.NoError(t, err)
	assert.Equal(t, "2 deleted\n", out)
	for _, args := range [][]string{{"list", "--limit", "0"}, {"list", "x"}, {"get"}, {"get", "a", "b"}, {"delete"}, append([]string{"delete"}, make([]string, 101)...)} {
		_, err := run(t, nil, args...)
		assert.Equal(t, command.WrongUsage, command.Code(err), "%v: %v", args, err)
	}
}
