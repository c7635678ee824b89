package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/shared/run/tier"
)

var someRegions = []string{"eu-west-1", "us-east-1"}

func given(pairs map[string]string) func(string) string {
	all := map[string]string{"tenant": "acme", "region": "eu-west-1"}
	maps.Copy(all, pairs)
	return func(key string) string { return all[key] }
}

const certificate = "arn:aws:acm:eu-west-1:123456789012:certificate/01234567-89ab-cdef-0123-456789abcdef"

func TestContext(t *testing.T) {
	t.Parallel()
	got, err := readConfig(given(nil), someRegions)
	require.NoError(t, err)
	assert.Equal(t, Config{Tenant: "acme", Region: "eu-west-1", Stage: "prod"}, got)
	assert.True(t, got.protected())

	got, err = readConfig(given(map[string]string{
		"tenant": "big-customer-7", "stage": "dev", "version": "v1.2.3-4-gabc", "domain": "api.acme.example", "certificate": certificate,
		"signinIssuer": "https://id.acme.example", "signinAudience": "app", "signinJwks": "https://id.acme.example/keys",
		"superAdmins": "a@b.example, c@d.example", "limits": "runs-per-minute=60, flows=9", "allowRanges": "10.0.0.0/8", "alarmEmail": "ops@acme.example",
		"mailFrom": "Acme <alerts@acme.example>", "logLevel": "debug", "tiers": "nano, small", "concurrency": "1000", "auditLock": "2555",
		"otlpEndpoint": "https://collector.example", "otlpHeadersSecret": otlpSecret,
	}), someRegions)
	require.NoError(t, err)
	assert.Equal(t, []string{"a@b.example", "c@d.example"}, got.SuperAdmins)
	assert.Equal(t, []string{"runs-per-minute=60", "flows=9"}, got.Limits)
	assert.Equal(t, []any{2555, "governance"}, []any{got.AuditLock, got.AuditLockMode})
	address, domain := got.mailFrom()
	assert.Equal(t, []string{"alerts@acme.example", "acme.example"}, []string{address, domain})
	assert.Equal(t, tier.Set{tier.Nano, tier.Small}, got.Tiers)
	assert.Equal(t, 1000, got.Concurrency)
	assert.False(t, got.protected())
	assert.Equal(t, "millrace-big-customer-7-dev-runs", got.name("runs"))
}

func TestInvalidContextIsRejected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given map[string]string
		want  string
	}{
		"no tenant":              {map[string]string{"tenant": ""}, "tenant is missing"},
		"capitals":               {map[string]string{"tenant": "Acme"}, `tenant "Acme"`},
		"long tenant":            {map[string]string{"tenant": "a2345678901234567"}, "1 to 16 small letters"},
		"hyphen at the end":      {map[string]string{"tenant": "acme-"}, "single hyphens between"},
		"two hyphens":            {map[string]string{"tenant": "ac--me"}, "single hyphens between"},
		"digit first":            {map[string]string{"tenant": "7acme"}, "beginning with a letter"},
		"injection":              {map[string]string{"tenant": "a${x}"}, "small letters"},
		"no region":              {map[string]string{"region": ""}, "region is missing"},
		"unknown region":         {map[string]string{"region": "eu-west-9"}, `"eu-west-9" is no region`},
		"no URLs of functions":   {map[string]string{"region": "eu-central-2"}, "region eu-central-2 has no URLs of functions"},
		"unknown stage":          {map[string]string{"stage": "production"}, "not one of dev, staging, prod"},
		"version":                {map[string]string{"version": "1 2"}, `version "1 2"`},
		"domain alone":           {map[string]string{"domain": "api.acme.example"}, "go together"},
		"certificate alone":      {map[string]string{"certificate": certificate}, "go together"},
		"no domain name":         {map[string]string{"domain": "https://api.acme.example", "certificate": certificate}, "no domain name"},
		"no certificate":         {map[string]string{"domain": "api.acme.example", "certificate": "cert"}, "no ARN of a certificate"},
		"certificate elsewhere":  {map[string]string{"domain": "api.acme.example", "certificate": certificate, "region": "us-east-1"}, "not in the region us-east-1"},
		"issuer alone":           {map[string]string{"signinIssuer": "https://id.example"}, "go together"},
		"issuer without TLS":     {map[string]string{"signinIssuer": "http://id.example", "signinAudience": "a"}, "no https URL"},
		"keys without an issuer": {map[string]string{"signinJwks": "https://id.example/keys"}, "needs a signinIssuer"},
		"administrator":          {map[string]string{"superAdmins": "root"}, "no email address"},
		"alarms":                 {map[string]string{"alarmEmail": "ops"}, "no email address"},
		"sender":                 {map[string]string{"mailFrom": "alerts"}, `mailFrom "alerts" is no email address`},
		"origin":                 {map[string]string{"consoleOrigin": "https://a.example, *"}, `consoleOrigin: "*" is not an origin`},
		"rollout":                {map[string]string{"rollout": "slow"}, `rollout "slow" is not one of canary, at-once`},
		"table":                  {map[string]string{"table": "a b"}, "no name of a table"},
		"budget":                 {map[string]string{"budget": "12.5"}, `budget "12.5" is no number of dollars`},
		"maxWriteUnits":          {map[string]string{"maxWriteUnits": "0"}, `maxWriteUnits "0" is no number`},
		"maxReadUnits":           {map[string]string{"maxReadUnits": "-3"}, `maxReadUnits "-3" is no number`},
		"anomalyMonitor":         {map[string]string{"anomalyMonitor": "arn:aws:sns:eu-west-1:123456789012:t"}, "is no ARN of a cost anomaly monitor"},
		"lock for ever":          {map[string]string{"auditLock": "forever"}, `auditLock "forever": 1 to 36500 days`},
		"lock of no days":        {map[string]string{"auditLock": "0"}, `auditLock "0"`},
		"mode of the lock":       {map[string]string{"auditLock": "1", "auditLockMode": "legal"}, `auditLockMode "legal" is neither`},
		"mode without a lock":    {map[string]string{"auditLockMode": "compliance"}, "needs auditLock"},
		"share":                  {map[string]string{"share": "101"}, `share "101" is no percentage`},
		"limits":                 {map[string]string{"limits": "apples=1"}, `limits: unknown limit "apples"`},
		"collector":              {map[string]string{"otlpEndpoint": "http://collector:4318"}, "no https URL"},
		"headers alone":          {map[string]string{"otlpHeadersSecret": otlpSecret}, "needs an otlpEndpoint"},
		"headers in the clear":   {map[string]string{"otlpEndpoint": "https://c.example", "otlpHeadersSecret": "api-key=k"}, "no ARN of a secret"},
		"log level":              {map[string]string{"logLevel": "trace"}, `logLevel "trace" is not one of debug, info, warn, error`},
		"signup":                 {map[string]string{"signup": "yes"}, `signup "yes" is not open`},
		"signup elsewhere":       {map[string]string{"signup": "open", "signinIssuer": "https://id.example", "signinAudience": "a"}, "signup is for deployments without"},
		"tiers":                  {map[string]string{"tiers": "nano,giant"}, `tiers: "giant" is not one of`},
		"tiers without nano":     {map[string]string{"tiers": "small"}, "tiers: nano is missing"},
		"concurrency":            {map[string]string{"concurrency": "many"}, `concurrency "many" is no number`},
		"concurrency below 0":    {map[string]string{"concurrency": "-1"}, `concurrency "-1" is no number`},
		"synthetic run":          {map[string]string{"syntheticRun": "yes"}, `syntheticRun "yes" is neither true nor false`},
		"backup in no region":    {map[string]string{"backupRegion": "eu-west-9"}, `backupRegion "eu-west-9" is no region`},
		"backup here":            {map[string]string{"backupRegion": "eu-west-1"}, "backupRegion is the deployment's own region"},
		"backup without URLs":    {map[string]string{"backupRegion": "eu-central-2"}, "nothing could be recovered there"},
		"backup in China":        {map[string]string{"backupRegion": "cn-north-1"}, "in another partition"},
		"backup of a recovered":  {map[string]string{"backupRegion": "us-east-1", "recoveredFrom": "us-east-1", "table": "t-2"}, "do not go together"},
		"recovered, no table":    {map[string]string{"recoveredFrom": "us-east-1"}, "recoveredFrom needs table"},
		"recovered from here":    {map[string]string{"recoveredFrom": "eu-west-1", "table": "t-2"}, "recoveredFrom is the deployment's own region"},
		"ranges":                 {map[string]string{"allowRanges": "10.0.0.1"}, "not a CIDR range"},
	} {
		_, err := readConfig(given(c.given), someRegions)
		require.ErrorContains(t, err, c.want, name)
	}
	_, err := readConfig(func(string) string { return "" }, someRegions)
	require.ErrorContains(t, err, "tenant is missing")
	require.ErrorContains(t, err, "region is missing", "the error names all faults")
}

func TestUnknownKeyIsRejected(t *testing.T) {
	t.Parallel()
	require.NoError(t, checkKeys([]string{"tenant", "stage", "aws:cdk:version-reporting", "@aws-cdk/core:flag"}))
	require.ErrorContains(t, checkKeys([]string{"tenant", "stag"}), "stag is not one of tenant, region, stage")
}

func TestOnlyAWSRegionsAreAccepted(t *testing.T) {
	t.Parallel()
	one.Lock()
	defer one.Unlock()
	got := regions()
	assert.Contains(t, got, "eu-west-1")
	assert.Contains(t, got, "ap-southeast-2")
	assert.NotContains(t, got, "eu-west-9")
}

// TestEveryKeyIsDescribed compares the list of context keys with the keys that
// are read.
func TestEveryKeyIsDescribed(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, 0)
	require.NoError(t, err)
	var read []string
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 1 {
			name, isName := call.Fun.(*ast.Ident)
			literal, isLiteral := call.Args[0].(*ast.BasicLit)
			if isName && isLiteral && name.Name == "get" {
				key, err := strconv.Unquote(literal.Value)
				assert.NoError(t, err)
				read = append(read, key)
			}
		}
		return true
	})
	slices.Sort(read) // some are read again, for the message about their value
	assert.ElementsMatch(t, contextKeys, slices.Compact(read))
	assert.True(t, slices.Contains(read, "tenant"))
}
