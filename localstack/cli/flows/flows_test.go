package flows

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/localstack/cli/session"
)

func TestFlowsAndDeploymentsAreDeleted(t *testing.T) {
	t.Parallel()
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.Path)
		fmt.Fprint(w, `{"status": "deleted"}`)
	}))
	t.Cleanup(server.Close)
	s := &session.Session{URL: server.URL, APIKey: "k"}
	var out bytes.Buffer
	flows, deployments := flowsCommand(s), deploymentsCommand(s)
	flows.SetArgs([]string{"delete", "daily"})
	deployments.SetArgs([]string{"delete", "daily-prod"})
	flows.SetOut(&out)
	deployments.SetOut(&out)
	require.NoError(t, deployments.Execute())
	require.NoError(t, flows.Execute())
	assert.Equal(t, []string{"DELETE /deployments/daily-prod", "DELETE /flows/daily"}, asked)
	assert.Equal(t, "deployment daily-prod is deleted\nflow daily is deleted\n", out.String())
}
