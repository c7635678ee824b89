package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"millrace/functions/catalog"
)

func TestUsersSignInAtCognitoByDefault(t *testing.T) {
	t.Parallel()
	d := deployed(t)
	pool := d.data.of("Cognito::UserPool")
	require.Len(t, pool, 1)
	assert.Equal(t, object{"AllowAdminCreateUserOnly": true}, pool[0].properties["AdminCreateUserConfig"], "nobody signs up")
	assert.Equal(t, []any{"email"}, pool[0].properties["AutoVerifiedAttributes"])
	assert.Equal(t, []any{"email"}, pool[0].properties["UserAttributeUpdateSettings"].(object)["AttributesRequireVerificationBeforeUpdate"])
	assert.Equal(t, "RetainExceptOnCreate", pool[0].all["DeletionPolicy"])
	domain := d.data.of("Cognito::UserPoolDomain")[0]
	assert.Equal(t, "millrace-acme-prod-${AWS::AccountId}-${AWS::Region}", text(domain.properties["Domain"]))
	assert.EqualValues(t, 2, domain.properties["ManagedLoginVersion"])

	client := d.service.of("Cognito::UserPoolClient")[0].properties
	assert.Equal(t, []any{false, []any{"code"}, []any{"openid", "email"}}, []any{client["GenerateSecret"], client["AllowedOAuthFlows"], client["AllowedOAuthScopes"]})
	assert.Equal(t, []string{"https://${Api}.execute-api.${AWS::Region}.${AWS::URLSuffix}/v1/cli-callback"}, texts(client["CallbackURLs"]))
	style := d.service.of("Cognito::ManagedLoginBranding")[0].properties
	assert.Equal(t, "${SignInClient}", text(style["ClientId"]), "without a style there is no page")

	variables := d.function(t, "runs").properties["Environment"].(object)["Variables"].(object)
	assert.Equal(t, "${import millrace-acme-prod-signin-issuer}", text(variables["MILLRACE_SIGNIN_ISSUER"]))
	assert.Equal(t, "${import millrace-acme-prod-signin-keys}", text(variables["MILLRACE_SIGNIN_JWKS_URL"]))
	assert.Equal(t, "${SignInClient}", text(variables["MILLRACE_SIGNIN_AUDIENCE"]))
	outputs := d.data.json["Outputs"].(object)
	assert.Equal(t, "https://cognito-idp.${AWS::Region}.${AWS::URLSuffix}/${Users}", text(outputs["SignInIssuer"].(object)["Value"]))
}

func TestSignInOfItsOwn(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Issuer, cfg.Audience = "https://id.acme.example", "app"
	d := synth(t, cfg, catalog.All(), "code")
	for name, template := range d.templates() {
		assert.NotContains(t, template.golden(t), "AWS::Cognito", name)
	}
	variables := d.function(t, "runs").properties["Environment"].(object)["Variables"].(object)
	assert.Equal(t, []any{"https://id.acme.example", "app", nil}, []any{
		variables["MILLRACE_SIGNIN_ISSUER"], variables["MILLRACE_SIGNIN_AUDIENCE"], variables["MILLRACE_SIGNIN_JWKS_URL"],
	})
}

// TestUserPoolCanBeReplacedByAProvider: CloudFormation removes no export that a
// stack imports. The data stack is deployed first, unless it loses the exports of
// the pool: then the Makefile lets the service stack, which needs nothing new, go
// first.
func TestUserPoolCanBeReplacedByAProvider(t *testing.T) {
	t.Parallel()
	exports := func(d deployment) map[string]bool {
		out := map[string]bool{}
		for _, o := range d.data.json["Outputs"].(object) {
			if of, found := o.(object)["Export"].(object); found {
				out[text(of["Name"])] = true
			}
		}
		return out
	}
	cfg := example()
	pool := synth(t, cfg, few(), "code")
	cfg.Issuer, cfg.Audience = "https://id.acme.example", "app"
	provider := synth(t, cfg, few(), "code")
	dropped := 0
	for name := range exports(pool) {
		if exports(provider)[name] {
			continue
		}
		dropped++
		assert.NotContains(t, provider.service.golden(t), name, "the service lets go of it")
	}
	assert.Equal(t, 3, dropped)
	assert.Empty(t, slices.DeleteFunc(slices.Collect(maps.Keys(exports(provider))), func(name string) bool { return exports(pool)[name] }))

	makefile, err := os.ReadFile("../Makefile")
	require.NoError(t, err)
	assert.True(t, exports(pool)["millrace-acme-prod-user-pool-id"])
	first := strings.Index(string(makefile), `list-imports --region $(REGION) --export-name $(NAME)-user-pool-id`)
	data := strings.Index(string(makefile), `--exclusively $(NAME)-data`)
	require.Positive(t, first)
	assert.Less(t, first, data)
}

func TestSignupAndCallbackFollowSettings(t *testing.T) {
	t.Parallel()
	cfg := example()
	cfg.Signup, cfg.Domain, cfg.Certificate = "open", "api.acme.example", certificate
	d := synth(t, cfg, catalog.All(), "code")
	assert.Equal(t, object{"AllowAdminCreateUserOnly": false}, d.data.of("Cognito::UserPool")[0].properties["AdminCreateUserConfig"])
	assert.Equal(t, []any{"https://api.acme.example/cli-callback"}, d.service.of("Cognito::UserPoolClient")[0].properties["CallbackURLs"])
}

// TestDomainPrefixesAreThoseThatCognitoTakes: up to 63 characters, without the
// words that Cognito keeps to itself.
func TestDomainPrefixesAreThoseThatCognitoTakes(t *testing.T) {
	t.Parallel()
	fill := strings.NewReplacer("${AWS::AccountId}", "123456789012", "${AWS::Region}", "ap-southeast-2")
	seen := map[string]bool{}
	for _, tenant := range []string{"acme", "clawson", "clawson-2", "amazonia", "incognito", "a234567890123456", "law-s"} {
		prefix := fill.Replace(Config{Tenant: tenant, Stage: "staging"}.signInPrefix())
		assert.LessOrEqual(t, len(prefix), maxPrefix, prefix)
		assert.Regexp(t, `^[a-z0-9](?:[a-z0-9\-]{0,61}[a-z0-9])?$`, prefix)
		assert.NotRegexp(t, reserved, prefix)
		assert.False(t, seen[prefix], prefix)
		seen[prefix] = true
	}
}
