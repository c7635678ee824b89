package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
)

func TestConsoleOfAnotherOriginMayUseAPI(t *testing.T) {
	t.Parallel()
	headers := func(d deployment, kind string) object {
		body := d.service.of("ApiGateway::RestApi")[0].properties["Body"].(object)
		return body["x-amazon-apigateway-gateway-responses"].(object)[kind].(object)["responseParameters"].(object)
	}
	const allow = "gatewayresponse.header.Access-Control-Allow-Origin"
	variables := func(d deployment, function string) object {
		return d.function(t, function).properties["Environment"].(object)["Variables"].(object)
	}
	cfg := example()
	cfg.Origins = []string{"https://console.acme.example", "https://beta.acme.example"}
	two := synth(t, cfg, catalog.All(), "code")
	for _, s := range two.specs {
		if s.Trigger.HTTP {
			assert.Equal(t, "https://console.acme.example,https://beta.acme.example", variables(two, s.Name)["MILLRACE_ALLOW_ORIGINS"], s.Name)
		} else {
			assert.NotContains(t, variables(two, s.Name), "MILLRACE_ALLOW_ORIGINS", s.Name)
		}
	}
	assert.Equal(t, object{"CorsRules": []any{object{
		"AllowedOrigins": []any{"https://console.acme.example", "https://beta.acme.example"}, "AllowedMethods": []any{"GET", "HEAD", "PUT"},
		"AllowedHeaders": []any{"*"}, "ExposedHeaders": []any{"ETag"}, "MaxAge": 600.0,
	}}}, two.data.of("S3::Bucket")[0].properties["CorsConfiguration"])
	assert.Equal(t, "method.request.header.Origin", headers(two, "THROTTLED")[allow])

	some, err := newRoutes(few())
	require.NoError(t, err)
	cfg.Origins = cfg.Origins[:1]
	one.Lock()
	body := some.body(cfg)
	one.Unlock()
	for kind, response := range body["x-amazon-apigateway-gateway-responses"].(object) {
		assert.Equal(t, "'https://console.acme.example'", response.(object)["responseParameters"].(object)[allow], kind)
		assert.NotContains(t, response.(object)["responseParameters"], "gatewayresponse.header.Access-Control-Allow-Credentials")
	}

	none := deployed(t)
	assert.NotContains(t, none.data.of("S3::Bucket")[0].properties, "CorsConfiguration")
	assert.Equal(t, object{"gatewayresponse.header.X-Request-Id": "context.requestId"}, headers(none, "THROTTLED"))
	assert.NotContains(t, variables(none, "runs"), "MILLRACE_ALLOW_ORIGINS")
}
