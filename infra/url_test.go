package main

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
	"millrace/shared/run/tier"
)

// TestSandboxesReportToAFunctionURL checks the URL by which sandboxes report: it
// takes both permissions, is the only thing that everybody may invoke, and does
// not depend on the API's domain.
func TestSandboxesReportToAFunctionURL(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Domain, cfg.Certificate = "api.acme.example", certificate
	for _, d := range []deployment{deployed(t), synth(t, cfg, catalog.All(), "code")} {
		urls := d.service.of("Lambda::Url")
		require.Len(t, urls, 1)
		assert.Equal(t, "NONE", urls[0].properties["AuthType"])
		assert.Equal(t, "${SandboxlogsFunction}", text(urls[0].properties["TargetFunctionArn"]))
		assert.Equal(t, "live", urls[0].properties["Qualifier"])
		var open []object
		for _, p := range d.service.of("Lambda::Permission") {
			if p.properties["Principal"] == "*" {
				assert.Equal(t, "${SandboxlogsLive}", text(p.properties["FunctionName"]))
				grant := maps.Clone(p.properties)
				delete(grant, "FunctionName")
				open = append(open, grant)
			}
		}
		assert.ElementsMatch(t, []object{
			{"Action": "lambda:InvokeFunctionUrl", "Principal": "*", "FunctionUrlAuthType": "NONE"},
			{"Action": "lambda:InvokeFunction", "Principal": "*", "InvokedViaFunctionUrl": true},
		}, open)
		for _, size := range tier.All() {
			env := d.function(t, sandboxName(size)).properties["Environment"].(object)["Variables"].(object)
			assert.Equal(t, "${"+urls[0].id+".FunctionUrl}internal/attempts", text(env["MILLRACE_ATTEMPTS_URL"]))
		}
		assert.Equal(t, "WARN", d.function(t, "sandboxlogs").properties["LoggingConfig"].(object)["SystemLogLevel"])
		env := d.function(t, "sandboxlogs").properties["Environment"].(object)["Variables"].(object)
		assert.NotContains(t, env, "MILLRACE_CURSOR_SECRET_ARN", "it authenticates nobody, and has no lists")
	}
}
