package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/client"
	"millrace/localstack/proc/proctest"
)

// attack is a task that tries to act as somebody else: without a credential,
// with forged claims, and with the server's credentials if it finds them.
const attack = `
import json, os, urllib.error, urllib.request

URL, DATA, VICTIM = %q, %q, %q
INVOKE = "/2015-03-31/functions/scheduler-tick/invocations"

def read(path):
    try:
        with open(path) as file:
            return json.load(file)
    except OSError:
        return None

def ask(path, body=None, headers={}):
    request = urllib.request.Request(URL + path, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code

def attack(ctx):
    routes = {"/_local/sign-in": {"email": VICTIM}, "/_local/backup": {"directory": os.getcwd() + "/copy"}, "/_local/metrics": None,
              INVOKE: {"event_type": "scheduler_tick"}}
    headers = [{}, {"Authorization": "Bearer "}, {"Authorization": "Bearer guess"}, {"Host": "localhost"}, {"X-Forwarded-For": "127.0.0.1"},
               {"Authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20260101/eu-west-1/lambda/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + "0" * 64}]
    statuses = sorted({ask(route, body, header) for route, body in routes.items() for header in headers})
    roots = ["", "/proc/1/root", "/proc/self/root", "/proc/%%d/root" %% os.getppid()]
    found = next(filter(None, (read(root + DATA + "/credentials.json") for root in roots)), None)
    others = [name for name in ("secrets.json", "signin.key", "store/CURRENT", "objects") for root in roots if os.access(root + DATA + "/" + name, os.R_OK)]
    signed_in = found and ask("/_local/sign-in", {"email": VICTIM}, {"Authorization": "Bearer " + found["local_secret"]})
    return {"statuses": statuses, "found": found is not None, "others": others, "signed_in": signed_in}
`

// TestTaskCannotImpersonate runs an attacker's task in each isolation mode: it
// achieves nothing without a credential, and finds one only if it runs as the
// server's user without namespaces, about which the server warns at its start.
func TestTaskCannotImpersonate(t *testing.T) {
	t.Parallel()
	const stranger = 64321 // a user id that the machine does not use
	cases := map[string]confined{
		"as the machine allows": {},
		"without namespaces":    {NoNamespaces: true},
	}
	if os.Geteuid() == 0 {
		cases["as another user"] = confined{UID: stranger}
		cases["as another user without namespaces"] = confined{UID: stranger, NoNamespaces: true}
		require.NoError(t, os.Chmod(filepath.Dir(binary), 0o711))
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, err := os.MkdirTemp("/var/tmp", "millrace-data-") // tasks have their own /tmp
			require.NoError(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(home) })
			dir := filepath.Join(home, "data")
			c.Binary, c.Home = binary, home
			if c.UID != 0 {
				require.NoError(t, os.Chown(home, c.UID, c.UID))
			}
			argument, err := json.Marshal(c)
			require.NoError(t, err)
			program := proctest.Program(t, "confined", string(argument))
			s := startOf(t, program, dir, "--log-level", "info")
			victim := "bob@example.com"
			var signedIn struct {
				IDToken string `json:"id_token"`
			}
			require.NoError(t, s.Local().Do(t.Context(), http.MethodPost, "/_local/sign-in", map[string]string{"email": victim}, &signedIn))

			api := s.Client()
			deploy(t, api, "attack", fmt.Sprintf(attack, s.Credentials.BaseURL, dir, victim), []task{{Name: "attack", Type: "python", Entrypoint: "flow:attack"}})
			run, err := api.Start(t.Context(), client.RunRequest{Deployment: "attack", Execute: true})
			require.NoError(t, err)
			require.Equal(t, "SUCCEEDED", run.Status, "%s", run.ErrorMessage)
			var got struct {
				Statuses []int    `json:"statuses"`
				Found    bool     `json:"found"`
				Others   []string `json:"others"`
				SignedIn int      `json:"signed_in"`
			}
			require.NoError(t, json.Unmarshal(run.TaskRuns[0].Output, &got))
			require.NoError(t, s.Stop())
			said := s.Output()

			assert.Equal(t, []int{http.StatusUnauthorized}, got.Statuses)
			isolated := strings.Contains(said, "Python tasks are isolated")
			serversUser := strings.Contains(said, "can read credentials.json")
			t.Logf("isolated %v, server's user %v, found %v, others %v", isolated, serversUser, got.Found, got.Others)
			assert.Equal(t, serversUser, got.Found, "%s", said)
			assert.Equal(t, serversUser, len(got.Others) > 0, "%v", got.Others)
			if c.NoNamespaces {
				assert.False(t, isolated)
				assert.Contains(t, said, "Python tasks are not isolated")
				assert.Equal(t, os.Geteuid() != 0 || c.UID != 0, serversUser)
			}
			if got.Found {
				assert.Equal(t, http.StatusOK, got.SignedIn, "which is why such a server is for one's own code only")
			}

			required := exec.CommandContext(t.Context(), program, "serve", "--data", dir, "--listen", "127.0.0.1:0", "--require-isolation")
			if isolated {
				again := startOf(t, program, dir, "--require-isolation")
				require.NoError(t, again.Stop())
				assert.NotContains(t, again.Output(), "Python tasks are isolated")
				return
			}
			out, err := required.CombinedOutput()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "%s", out)
			assert.Equal(t, 1, exit.ExitCode(), "%s", out)
			assert.Contains(t, string(out), "--require-isolation: Python tasks cannot be isolated on this machine")
			assert.Equal(t, 1, strings.Count(string(out), "\n"), "%s", out)
		})
	}
}
