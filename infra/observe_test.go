package main

import (
	"testing"

	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"

	"millrace/functions/catalog"
)

// TestFunctionsGetLogLevel: each of them, and none without the setting.
func TestFunctionsGetLogLevel(t *testing.T) {
	t.Parallel()
	at := api{url: func(string) *string { return jsii.String("https://api.acme.example") }}
	for _, spec := range catalog.All() {
		cfg := example()
		assert.NotContains(t, environment(cfg, spec, at, signIn{}), "MILLRACE_LOG_LEVEL", spec.Name)
		cfg.LogLevel = "debug"
		assert.Equal(t, "debug", *environment(cfg, spec, at, signIn{})["MILLRACE_LOG_LEVEL"], spec.Name)
	}
}
