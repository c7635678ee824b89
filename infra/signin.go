package main

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscognito"
	"github.com/aws/jsii-runtime-go"
)

// A deployment without a configured identity provider has its users in a Cognito
// user pool. The pool and its pages are in the data stack, because users outlive
// the code; the client is in the service stack, whose API it returns to.

// The exports of the data stack for sign-in.
const (
	userPoolID   = "user-pool-id"
	signInIssuer = "signin-issuer"
	signInKeys   = "signin-keys"
)

// openSignup is the value of the context key signup.
const openSignup = "open"

// Settings of passwords and of the first one, which is sent by mail.
const (
	passwordLength    = 12
	firstPasswordDays = 7
)

// signIn is what functions need to know of the identity provider. keys is nil if
// the provider's discovery document tells them; all are nil if there is no
// provider.
type signIn struct{ issuer, audience, keys *string }

// addUsers adds the user pool and the domain of its pages.
func addUsers(stack awscdk.Stack, cfg Config) {
	if cfg.Issuer != "" {
		return
	}
	email := jsii.Strings("email")
	pool := awscognito.NewCfnUserPool(stack, jsii.String("Users"), &awscognito.CfnUserPoolProps{
		UserPoolName: jsii.String(cfg.name("users")),
		UserPoolTier: jsii.String("ESSENTIALS"), // the lowest with managed login
		// An email is an identity, which is compared without case.
		UsernameAttributes:     email,
		UsernameConfiguration:  &awscognito.CfnUserPool_UsernameConfigurationProperty{CaseSensitive: jsii.Bool(false)},
		AutoVerifiedAttributes: email,
		// A user keeps the old address until the new one is verified.
		UserAttributeUpdateSettings: &awscognito.CfnUserPool_UserAttributeUpdateSettingsProperty{AttributesRequireVerificationBeforeUpdate: email},
		AccountRecoverySetting: &awscognito.CfnUserPool_AccountRecoverySettingProperty{RecoveryMechanisms: []any{
			&awscognito.CfnUserPool_RecoveryOptionProperty{Name: jsii.String("verified_email"), Priority: jsii.Number(1)},
		}},
		AdminCreateUserConfig: &awscognito.CfnUserPool_AdminCreateUserConfigProperty{AllowAdminCreateUserOnly: jsii.Bool(cfg.Signup != openSignup)},
		MfaConfiguration:      jsii.String("OPTIONAL"),
		EnabledMfas:           jsii.Strings("SOFTWARE_TOKEN_MFA"),
		Policies: &awscognito.CfnUserPool_PoliciesProperty{PasswordPolicy: &awscognito.CfnUserPool_PasswordPolicyProperty{
			MinimumLength: jsii.Number(passwordLength), TemporaryPasswordValidityDays: jsii.Number(firstPasswordDays),
			RequireLowercase: jsii.Bool(false), RequireUppercase: jsii.Bool(false), RequireNumbers: jsii.Bool(false), RequireSymbols: jsii.Bool(false),
		}},
	})
	cfg.keep(pool)
	// Deleted with its stack also where data is kept: it holds nothing, and its
	// name is unique in the region.
	domain := awscognito.NewCfnUserPoolDomain(stack, jsii.String("SignInDomain"), &awscognito.CfnUserPoolDomainProps{
		Domain: awscdk.Fn_Sub(jsii.String(cfg.signInPrefix()), nil), UserPoolId: pool.Ref(), ManagedLoginVersion: jsii.Number(2),
	})
	domain.ApplyRemovalPolicy(awscdk.RemovalPolicy_DESTROY, nil)
	export(stack, cfg, "UserPoolId", userPoolID, pool.Ref())
	issuer := "https://cognito-idp.${AWS::Region}.${AWS::URLSuffix}/${Users}"
	export(stack, cfg, "SignInIssuer", signInIssuer, awscdk.Fn_Sub(jsii.String(issuer), nil))
	export(stack, cfg, "SignInKeys", signInKeys, awscdk.Fn_Sub(jsii.String(issuer+"/.well-known/jwks.json"), nil))
}

// reserved are the words that Cognito refuses in a domain's prefix.
var reserved = regexp.MustCompile(`aws|amazon|cognito`)

// maxPrefix is the most characters of a domain's prefix.
const maxPrefix = 63

// signInPrefix returns the prefix of the domain of the sign-in pages. Prefixes are
// unique in a region over all accounts, so it contains the account and the
// region. At most maxPrefix characters result, the longest region's name included.
func (c Config) signInPrefix() string {
	tenant := c.Tenant
	if reserved.MatchString(tenant) { // clawson
		sum := sha256.Sum256([]byte(tenant))
		tenant = hex.EncodeToString(sum[:])[:maxTenant]
	}
	return "millrace-" + tenant + "-" + c.Stage + "-${AWS::AccountId}-${AWS::Region}"
}

// addSignInClient adds the client of the user pool, as whose user a browser signs
// in, and returns the identity provider: the pool, or the configured one.
func addSignInClient(stack awscdk.Stack, cfg Config, api api) signIn {
	if cfg.Issuer != "" {
		out := signIn{issuer: jsii.String(cfg.Issuer), audience: jsii.String(cfg.Audience)}
		if cfg.JWKS != "" {
			out.keys = jsii.String(cfg.JWKS)
		}
		return out
	}
	client := awscognito.NewCfnUserPoolClient(stack, jsii.String("SignInClient"), &awscognito.CfnUserPoolClientProps{
		ClientName: jsii.String(cfg.name("signin")), UserPoolId: cfg.imported(userPoolID),
		// A public client, as pages and programs of users cannot keep a secret:
		// authorization code with PKCE.
		GenerateSecret:                  jsii.Bool(false),
		AllowedOAuthFlowsUserPoolClient: jsii.Bool(true),
		AllowedOAuthFlows:               jsii.Strings("code"),
		AllowedOAuthScopes:              jsii.Strings("openid", "email"),
		SupportedIdentityProviders:      jsii.Strings("COGNITO"),
		CallbackUrLs:                    &[]*string{api.url("/cli-callback")},
		LogoutUrLs:                      &[]*string{api.url("/cli-callback")},
		ExplicitAuthFlows:               jsii.Strings("ALLOW_USER_SRP_AUTH", "ALLOW_REFRESH_TOKEN_AUTH"),
		PreventUserExistenceErrors:      jsii.String("ENABLED"),
		EnableTokenRevocation:           jsii.Bool(true),
	})
	// Managed login shows no page for a client without a style.
	awscognito.NewCfnManagedLoginBranding(stack, jsii.String("SignInStyle"), &awscognito.CfnManagedLoginBrandingProps{
		UserPoolId: cfg.imported(userPoolID), ClientId: client.Ref(), UseCognitoProvidedValues: jsii.Bool(true),
	})
	return signIn{issuer: cfg.imported(signInIssuer), audience: client.Ref(), keys: cfg.imported(signInKeys)}
}
