package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestImportOfAPIMakesNoDocumentation checks that the import of the document
// leaves out its descriptions: an API may have 2,000 documentation parts, and
// each described operation, parameter and response is one.
func TestImportOfAPIMakesNoDocumentation(t *testing.T) {
	t.Parallel()
	api := deployed(t).service.of("ApiGateway::RestApi")[0].properties
	assert.Equal(t, object{"ignore": "documentation"}, api["Parameters"])
	assert.Equal(t, false, api["FailOnWarnings"])
}

func TestStatusOfGatewayResponseIsString(t *testing.T) {
	t.Parallel()
	body := deployed(t).service.of("ApiGateway::RestApi")[0].properties["Body"].(object)
	responses := body["x-amazon-apigateway-gateway-responses"].(object)
	statuses := 0
	for kind, response := range responses {
		if status, found := response.(object)["statusCode"]; found {
			statuses++
			assert.Regexp(t, `^[45]\d\d$`, status, kind)
			assert.IsType(t, "", status, kind)
		}
	}
	require.Greater(t, statuses, 4)
}
