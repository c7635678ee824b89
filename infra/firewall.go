package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/jsii-runtime-go"
)

// Rate limits, in requests per five minutes.
const (
	perAddress    = 6_000
	perCredential = 12_000
)

// addFirewall adds the web ACL of the API. It keeps neither samples of requests
// nor a log: both would contain whole paths and credentials.
func addFirewall(stack awscdk.Stack, cfg Config) awswafv2.CfnWebACL {
	priority := 0.0
	rule := func(name string, statement *awswafv2.CfnWebACL_StatementProperty) *awswafv2.CfnWebACL_RuleProperty {
		priority++
		return &awswafv2.CfnWebACL_RuleProperty{
			Name: jsii.String(name), Priority: jsii.Number(priority), Statement: statement, VisibilityConfig: unsampled(cfg, name),
		}
	}
	block := func(r *awswafv2.CfnWebACL_RuleProperty) *awswafv2.CfnWebACL_RuleProperty {
		r.Action = &awswafv2.CfnWebACL_RuleActionProperty{Block: &awswafv2.CfnWebACL_BlockActionProperty{
			CustomResponse: &awswafv2.CfnWebACL_CustomResponseProperty{
				ResponseCode: jsii.Number(429), CustomResponseBodyKey: jsii.String("slower"),
				ResponseHeaders: []any{&awswafv2.CfnWebACL_CustomHTTPHeaderProperty{Name: jsii.String("Retry-After"), Value: jsii.String("60")}},
			},
		}}
		return r
	}
	managed := func(group string, counted ...string) *awswafv2.CfnWebACL_RuleProperty {
		overrides := []any{}
		for _, name := range counted {
			overrides = append(overrides, &awswafv2.CfnWebACL_RuleActionOverrideProperty{
				Name: jsii.String(name), ActionToUse: &awswafv2.CfnWebACL_RuleActionProperty{Count: map[string]any{}},
			})
		}
		r := rule(group, &awswafv2.CfnWebACL_StatementProperty{ManagedRuleGroupStatement: &awswafv2.CfnWebACL_ManagedRuleGroupStatementProperty{
			VendorName: jsii.String("AWS"), Name: jsii.String(group), RuleActionOverrides: overrides,
		}})
		r.OverrideAction = &awswafv2.CfnWebACL_OverrideActionProperty{None: map[string]any{}}
		return r
	}
	return awswafv2.NewCfnWebACL(stack, jsii.String("Firewall"), &awswafv2.CfnWebACLProps{
		Name: jsii.String(cfg.name("api")), Scope: jsii.String("REGIONAL"), VisibilityConfig: unsampled(cfg, "all"),
		DefaultAction: &awswafv2.CfnWebACL_DefaultActionProperty{Allow: map[string]any{}},
		CustomResponseBodies: map[string]any{"slower": &awswafv2.CfnWebACL_CustomResponseBodyProperty{
			ContentType: jsii.String("APPLICATION_JSON"), Content: jsii.String(`{"detail": "Too many requests"}`),
		}},
		Rules: []any{
			block(rule("requests-of-an-address", rate(perAddress, "IP", nil))),
			block(rule("requests-of-a-credential", rate(perCredential, "CUSTOM_KEYS", authorization()))),
			managed("AWSManagedRulesAmazonIpReputationList"),
			// Flows are code, with addresses, paths and markup in it: rules that match
			// these in bodies only count. Operations limit the size of bodies, and
			// cursors and filters are long. Names may end like files (import.log), and no
			// path is one.
			managed("AWSManagedRulesCommonRuleSet",
				"SizeRestrictions_BODY", "SizeRestrictions_QUERYSTRING", "CrossSiteScripting_BODY", "GenericLFI_BODY", "GenericRFI_BODY",
				"EC2MetaDataSSRF_BODY", "GenericRFI_QUERYARGUMENTS", "NoUserAgent_HEADER",
				"RestrictedExtensions_URIPATH", "RestrictedExtensions_QUERYARGUMENTS"),
			managed("AWSManagedRulesKnownBadInputsRuleSet", "JavaDeserializationRCE_BODY", "Log4JRCE_BODY"),
		},
	})
}

// unsampled returns the visibility settings of a rule: its requests are
// counted, but not sampled.
func unsampled(cfg Config, name string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
	return &awswafv2.CfnWebACL_VisibilityConfigProperty{
		CloudWatchMetricsEnabled: jsii.Bool(true), SampledRequestsEnabled: jsii.Bool(false), MetricName: jsii.String(cfg.name(name)),
	}
}

func rate(limit int, by string, keys any) *awswafv2.CfnWebACL_StatementProperty {
	return &awswafv2.CfnWebACL_StatementProperty{RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{
		Limit: jsii.Number(limit), AggregateKeyType: jsii.String(by), CustomKeys: keys, EvaluationWindowSec: jsii.Number(300),
	}}
}

// authorization distinguishes callers by their credential.
func authorization() []any {
	return []any{&awswafv2.CfnWebACL_RateBasedStatementCustomKeyProperty{
		Header: &awswafv2.CfnWebACL_RateLimitHeaderProperty{Name: jsii.String("authorization"), TextTransformations: verbatim()},
	}}
}

func verbatim() []any {
	return []any{&awswafv2.CfnWebACL_TextTransformationProperty{Priority: jsii.Number(0), Type: jsii.String("NONE")}}
}
