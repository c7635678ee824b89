package cloud_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/localstack/client"
	"millrace/localstack/cloud"
	"millrace/localstack/embedded/signin"
	"millrace/shared/platform/ids"
	"millrace/shared/web/httpapi"
)

var listUnused = flag.Bool("unused", false, "print the permissions that the end-to-end tests do not use")

// unusedFile lists the permissions that the end-to-end tests do not use: a
// pattern of "function statement action", a tab and the reason.
const unusedFile = "testdata/unused.txt"

// tour is requests of a new workspace's owner to every HTTP function that
// writes, in order: method, path of the description, whose example is the
// body, and the path.
var tour = []string{
	"POST /flows", "POST /deployments", "PUT /deployments/{deployment_name}/settings /deployments/daily-sales/settings",
	"PATCH /deployments/{deployment_name} /deployments/daily-sales", "POST /runs",
	"POST /flows/{flow_name}/draft /flows/daily-sales/draft", "PUT /flows/{flow_name}/draft/source /flows/daily-sales/draft/source",
	"POST /environments", "PATCH /environments/{env_name} /environments/staging", "PUT /environments/{env_name}/variables /environments/staging/variables",
	"POST /secrets", "PUT /secrets/{secret_name} /secrets/WAREHOUSE_PASSWORD", "PATCH /secrets/{secret_name} /secrets/WAREHOUSE_PASSWORD",
	"POST /schedules", "POST /flows/{flow_name}/backfill /flows/daily-sales/backfill", "POST /sensors", "POST /channels", "POST /alert-rules",
	"POST /artifacts/initiate", "POST /api-keys", "POST /auth/login", "POST /auth/device/start",
}

// otherBodies are used instead of examples that need what the tour lacks.
var otherBodies = map[string]string{
	"POST /schedules": `{"deployment": "daily-sales", "mode": "interval", "interval_seconds": 86400, "parameters": {"day": "2026-03-04"}}`,
}

// tourist sends requests of the tour.
type tourist struct {
	client.Client
	document struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
	}
}

// visit signs in at a stack as a new user and creates a workspace.
func visit(t *testing.T, c signin.Credentials) *tourist {
	t.Helper()
	out := &tourist{Client: client.Client{BaseURL: c.BaseURL, Token: c.LocalSecret}}
	data, err := json.Marshal(catalog.API(catalog.All(), httpapi.Config{}).OpenAPI())
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &out.document))
	var signedIn struct {
		IDToken string `json:"id_token"`
	}
	email := strings.ToLower(ids.Slug()) + "@tourist.test"
	require.NoError(t, out.Do(t.Context(), http.MethodPost, signin.SignInPath, map[string]any{"email": email}, &signedIn))
	out.Token = signedIn.IDToken
	require.NoError(t, out.Do(t.Context(), http.MethodPost, "/orgs", map[string]any{"name": "Tour"}, nil))
	return out
}

// send sends the example of an operation, or another body.
func (c *tourist) send(t *testing.T, method, of, at string) {
	t.Helper()
	body := c.document.Paths[of][strings.ToLower(method)].RequestBody.Content["application/json"].Example
	if other, is := otherBodies[method+" "+of]; is {
		body = json.RawMessage(other)
	}
	res, err := c.Send(t.Context(), method, at, nil, bytes.NewReader(body))
	if failed := (*client.Error)(nil); errors.As(err, &failed) {
		assert.Less(t, failed.Status, 500, failed.Error())
		t.Log(failed)
		return
	}
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
}

// testTour calls every HTTP function: what its role denies is an error of the
// service.
func testTour(t *testing.T, c signin.Credentials) {
	visitor := visit(t, c)
	for _, step := range tour {
		words := strings.Fields(step)
		of, at := words[1], words[len(words)-1]
		visitor.send(t, words[0], of, at)
	}
	for _, op := range catalog.Operations(catalog.All()) {
		if op.Method == http.MethodGet && !strings.Contains(op.Path, "{") {
			visitor.send(t, op.Method, op.Path, op.Path)
		}
	}
}

// accessOf returns how the functions of a stack used their roles.
func accessOf(t *testing.T, c signin.Credentials) cloud.Access {
	t.Helper()
	var out cloud.Access
	require.NoError(t, (&client.Client{BaseURL: c.BaseURL, Token: c.LocalSecret}).Do(t.Context(), http.MethodGet, cloud.AccessPath, nil, &out))
	return out
}

// checkUnused checks that each unused permission of a role is listed, with the
// reason for it. A listed one may be used: much depends on the time that has
// passed.
func checkUnused(t *testing.T, unused []string, prefix string) {
	t.Helper()
	file, err := os.Open(unusedFile)
	require.NoError(t, err)
	defer file.Close()
	type line struct{ pattern, reason string }
	var listed []line
	for lines := bufio.NewScanner(file); lines.Scan(); {
		pattern, reason, _ := strings.Cut(lines.Text(), "\t")
		if strings.HasPrefix(pattern, "#") {
			continue
		}
		assert.NotEmpty(t, strings.TrimSpace(reason), pattern)
		listed = append(listed, line{strings.TrimSpace(pattern), reason})
	}
	var unlisted []string
	for _, permission := range unused {
		name := strings.TrimPrefix(permission, prefix)
		if *listUnused {
			fmt.Println(name)
		}
		if !slices.ContainsFunc(listed, func(l line) bool {
			matched, err := path.Match(l.pattern, name)
			require.NoError(t, err, l.pattern)
			return matched
		}) {
			unlisted = append(unlisted, name)
		}
	}
	assert.Empty(t, unlisted, "used by no end-to-end test: take them from the roles, test them, or say why in %s", unusedFile)
}
