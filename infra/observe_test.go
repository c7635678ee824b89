package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/jsii-runtime-go"
	"github.com/stretchr/testify/assert"

	"millrace/functions/catalog"
	"millrace/shared/platform/telemetry/otlp"
	"millrace/shared/web/fn"
)

// TestFunctionsGetLogLevel: each of them, and none without the setting.
func TestFunctionsGetLogLevel(t *testing.T) {
	t.Parallel()
	one.Lock()
	defer one.Unlock()
	at := api{url: func(string) *string { return jsii.String("https://api.acme.example") }}
	for _, spec := range catalog.All() {
		cfg := example()
		assert.NotContains(t, environment(cfg, spec, at, signIn{}, walls{}), "MILLRACE_LOG_LEVEL", spec.Name)
		cfg.LogLevel = "debug"
		assert.Equal(t, "debug", *environment(cfg, spec, at, signIn{}, walls{})["MILLRACE_LOG_LEVEL"], spec.Name)
	}
}

// TestLambdaStoresLinesOfLogLevel: of lines in JSON, Lambda stores by default those
// of INFO and above.
func TestLambdaStoresLinesOfLogLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]any{"": nil, "debug": "DEBUG", "info": nil, "error": nil} {
		cfg := example()
		cfg.LogLevel = level
		for _, f := range synth(t, cfg, few(), "code").service.of("Lambda::Function") {
			if logging, found := f.properties["LoggingConfig"].(object); found {
				assert.Equal(t, want, logging["ApplicationLogLevel"], "%s at %q", f.id, level)
			}
		}
	}
}

// TestCollectorLeavesRoom: Go's memory limit is that of the heap and the runtime;
// the program and its buffers in the kernel need the rest.
func TestCollectorLeavesRoom(t *testing.T) {
	t.Parallel()
	one.Lock()
	defer one.Unlock()
	at := api{url: func(string) *string { return jsii.String("https://api.acme.example") }}
	for _, spec := range catalog.All() {
		env := environment(example(), spec, at, signIn{}, walls{})
		assert.Equal(t, "400", *env["GOGC"], spec.Name)
		limit, err := strconv.Atoi(strings.TrimSuffix(*env["GOMEMLIMIT"], "MiB"))
		assert.NoError(t, err, spec.Name)
		assert.LessOrEqual(t, limit, spec.MemoryMB-64, spec.Name)
		assert.GreaterOrEqual(t, limit, spec.MemoryMB/2, spec.Name)
	}
}

const otlpSecret = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:otlp-headers-AbCdEf"

// TestFunctionsExportSpans: with the setting, each function knows the collector
// and may read the one secret with its headers.
func TestFunctionsExportSpans(t *testing.T) {
	t.Parallel()
	one.Lock()
	defer one.Unlock()
	at := api{url: func(string) *string { return jsii.String("https://api.acme.example") }}
	off, on := example(), example()
	on.OTLPEndpoint, on.OTLPHeaders = "https://collector.example", otlpSecret
	reads := func(cfg Config, spec fn.Spec) (all []string) {
		for _, s := range permissions(cfg, spec) {
			if slices.Contains(s.actions, "secretsmanager:GetSecretValue") {
				for _, r := range s.resources {
					all = append(all, *r)
				}
			}
		}
		return all
	}
	for _, spec := range catalog.All() {
		env := environment(off, spec, at, signIn{}, walls{})
		assert.NotContains(t, env, otlp.EnvEndpoint, spec.Name)
		assert.NotContains(t, reads(off, spec), otlpSecret, spec.Name)
		env = environment(on, spec, at, signIn{}, walls{})
		assert.Equal(t, "https://collector.example", *env[otlp.EnvEndpoint], spec.Name)
		assert.Equal(t, otlpSecret, *env[otlp.EnvHeaders], "%s: the ARN, not the value", spec.Name)
		assert.Contains(t, reads(on, spec), otlpSecret, spec.Name)
	}
}
