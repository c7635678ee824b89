package preflight_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/infra/preflight"
)

// TestAccountOfAWS reads an account from a server with AWS's answers. It sets the
// environment, so it cannot run in parallel.
func TestAccountOfAWS(t *testing.T) {
	var called []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		form := string(body)
		called = append(called, r.URL.Path+" "+form)
		stack := func(status string) string {
			return `<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>x</StackName><CreationTime>2026-01-01T00:00:00Z</CreationTime>` +
				`<StackStatus>` + status + `</StackStatus><EnableTerminationProtection>true</EnableTerminationProtection></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`
		}
		switch {
		case strings.Contains(form, "GetCallerIdentity"):
			fmt.Fprint(w, `<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`)
		case strings.Contains(form, "DescribeStacks") && strings.Contains(form, "gone"):
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `<ErrorResponse><Error><Code>ValidationError</Code><Message>Stack with id gone does not exist</Message></Error></ErrorResponse>`)
		case strings.Contains(form, "DescribeStacks"):
			fmt.Fprint(w, stack("ROLLBACK_COMPLETE"))
		case strings.Contains(form, "UpdateTerminationProtection"):
			fmt.Fprint(w, `<UpdateTerminationProtectionResponse><UpdateTerminationProtectionResult/></UpdateTerminationProtectionResponse>`)
		case strings.HasSuffix(r.URL.Path, "/account-settings/"), strings.HasSuffix(r.URL.Path, "/account-settings"):
			fmt.Fprint(w, `{"AccountLimit": {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 8}}`)
		case r.URL.Query().Get("Marker") != "":
			fmt.Fprint(w, `{"Functions": [{"MemorySize": 4096}]}`)
		default:
			fmt.Fprint(w, `{"Functions": [{"MemorySize": 128}], "NextMarker": "more"}`)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	a, err := preflight.Open(t.Context(), "eu-west-1")
	require.NoError(t, err)
	assert.Empty(t, called)

	id, err := a.ID(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "123456789012", id)
	quota, unreserved, err := a.Concurrency(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []int{10, 8}, []int{quota, unreserved})
	largest, err := a.LargestFunction(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 4096, largest, "of all pages")
	none, err := a.Stack(t.Context(), "gone")
	require.NoError(t, err)
	assert.Equal(t, preflight.Stack{}, none)
	s, err := a.Stack(t.Context(), "data")
	require.NoError(t, err)
	assert.Equal(t, preflight.Stack{Status: "ROLLBACK_COMPLETE", Protected: true}, s)
	require.NoError(t, a.Unprotect(t.Context(), "data"))
	assert.Contains(t, called[len(called)-1], "EnableTerminationProtection=false")
}
