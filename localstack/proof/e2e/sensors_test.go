package e2e

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSensorsOnTheCommandLine does what a user of a webhook does.
func TestSensorsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	data := dataDir(t)
	project := filepath.Dir(data)
	u := &user{t: t, dir: project}
	start(t, filepath.Join(project, ".millrace"))
	made := u.must("sensors", "create", "deploys", "--type", "webhook", "--flow", "report", "-p", "n=1", "-p", "day=monday")
	found := regexp.MustCompile(`(?s)^(sen_\w+) is created\nPOST (http://\S+/webhooks/whk_[\w-]{43})\n$`).FindStringSubmatch(made)
	require.Len(t, found, 3, made)
	id, address := found[1], found[2]
	assert.Contains(t, u.must("sensors", "test", id), "would start no run of report: Flow 'report' is not registered")
	flow := `{"flow_name":"report","flow_version":"1","flow_spec":{"tasks":[{"name":"a","type":"transform","config":{"expression":"params"}}]}}`
	assert.Zero(t, u.run(flow, "api", "POST", "/flows", "--input", "-").code)
	assert.Equal(t, "would start a run of report 1\nparameters: {\"day\":\"monday\",\"n\":1}\n", u.must("sensors", "test", id))

	res, err := http.Post(address, "application/json", strings.NewReader(`{"day": "tuesday"}`)) //nolint:noctx // a sender of the user's
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	require.Equal(t, 200, res.StatusCode)
	runs := u.must("runs", "--json")
	run := regexp.MustCompile(`"run_id":"(\w+)"`).FindStringSubmatch(runs)
	require.Len(t, run, 2, runs)
	u.must("logs", run[1], "-f")
	assert.JSONEq(t, `{"day":"tuesday","n":1}`, u.must("output", run[1], "a"))

	assert.Contains(t, u.must("sensors", "get", id), address)
	u.must("sensors", "create", "orders", "--type", "objstore", "--flow", "report", "-c", "bucket=landing", "-c", "suffix=.csv")
	list := u.must("sensors", "list")
	assert.NotContains(t, list, "whk_")
	assert.Regexp(t, `orders +objstore +report +landing/\*\.csv`, list)
	signed := u.run("correct horse battery staple\n", "sensors", "create", "signed", "--type", "webhook", "--flow", "report", "--signed", "--json")
	assert.Zero(t, signed.code, signed.err)
	assert.Contains(t, signed.out, `"hmac_secret":"***"`)

	refused := u.run("", "sensors", "create", "x", "--type", "objstore", "--flow", "report")
	assert.Equal(t, 1, refused.code)
	assert.Contains(t, refused.err, "bucket")
	for _, wrong := range [][]string{{"x"}, {"x", "--type", "webhook"}, {"x", "--type", "webhook", "--flow", "report", "-p", "n"}, {"x", "--type", "webhook", "--flow", "report", "--config", "none.json"}} {
		assert.Equal(t, 2, u.run("", append([]string{"sensors", "create"}, wrong...)...).code, "%v", wrong)
	}
	used := u.run("", "api", "DELETE", "/flows/report")
	assert.Contains(t, used.err, "sensor '"+id+"'")
	assert.Equal(t, "sensor deploys is deleted\n", u.must("sensors", "delete", "deploys"))
	assert.Equal(t, 6, u.run("", "sensors", "get", id).code)
}
